/** What developers use, as scripts that run in an empty folder. */

/** By program: what it does in earnest, and says at the end. */
export const work: Record<string, { script: string; says: string }> = {
  node: {
    script: `cat > a.mjs <<'END'
import { Worker } from "node:worker_threads"; import { execFileSync } from "node:child_process"; import net from "node:net"; import os from "node:os"; import fs from "node:fs/promises";
await new Promise((go) => new Worker("1", { eval: true }).once("exit", go));
for (const host of ["127.0.0.1", "::1"]) { const server = net.createServer((s) => s.end("x")).listen(0, host); await new Promise((go) => server.once("listening", go)); await new Promise((go) => net.connect(server.address().port, host).resume().once("close", go)); server.close(); }
const watcher = (await import("node:fs")).watch("."); const seen = new Promise((go) => watcher.once("change", go)); await fs.writeFile("b", "b"); await seen; watcher.close();
console.log(execFileSync("echo", ["node"], { encoding: "utf8" }).trim(), Object.keys(os.networkInterfaces()).join());
END
node a.mjs`,
    says: "node lo",
  },
  npm: {
    script: `echo '{"name":"a","scripts":{"test":"node --test"}}' > package.json; echo 'require("node:test")("t", () => {})' > a.test.js; npm test >/dev/null 2>&1 && echo npm`,
    says: "npm",
  },
  python3: {
    script: `cat > a.py <<'END'
import asyncio, multiprocessing, os, pty, socket, subprocess, tempfile, threading
from multiprocessing import shared_memory
def double(n): return 2 * n
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: assert pool.map(double, [1, 2]) == [2, 4]
    shared = shared_memory.SharedMemory(create=True, size=4096); shared.unlink()
    t = threading.Thread(target=double, args=(1,)); t.start(); t.join()
    async def main():
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0); server.close()
    asyncio.run(main())
    a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
    pid, fd = pty.fork()
    if pid == 0: os.execvp("true", ["true"])
    os.waitpid(pid, 0)
    with tempfile.TemporaryFile() as f: f.write(b"x")
    print(subprocess.run(["echo", "python"], capture_output=True, text=True).stdout.strip())
END
python3 a.py`,
    says: "python",
  },
  git: {
    script: `git init -q r && cd r && git config user.email a@b && git config user.name a && echo a > a && git add a && git commit -qm first && git clone -q . ../c && git worktree add -q ../w && git gc -q && git fsck && echo git`,
    says: "git",
  },
  gcc: {
    script: `cat > a.c <<'END'
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
extern char **environ;
static void *work(void *x) { return x; }
int main(void) { pthread_t t; pid_t p; int s; char *argv[] = {"true", 0};
  if (pthread_create(&t, 0, work, 0) || pthread_join(t, 0)) return 1;
  if (posix_spawnp(&p, "true", 0, 0, argv, environ) || waitpid(p, &s, 0) != p || s) return 2;
  puts("gcc"); return 0; }
END
gcc -g -pthread -fsanitize=address,undefined a.c -o a 2>/dev/null || gcc -g -pthread a.c -o a; ASAN_OPTIONS=detect_leaks=0 ./a`,
    says: "gcc",
  },
  gdb: {
    script: `echo 'int main(void) { return 3; }' > b.c && gcc -g b.c -o b && gdb -q -batch -nx -ex 'break main' -ex run -ex continue ./b 2>&1 | grep -o 'exited with code 03'`,
    says: "exited with code 03",
  },
  strace: { script: `strace -f -o log sh -c 'true & wait' && grep -c exited log`, says: "2" },
  cargo: {
    script: `export CARGO_HOME=/tmp/cargo; cargo init -q --name a --vcs none 2>/dev/null; cat > src/main.rs <<'END'
fn main() { std::thread::spawn(|| {}).join().unwrap(); std::process::Command::new("true").status().unwrap(); println!("cargo"); }
END
cargo run -q --offline`,
    says: "cargo",
  },
  go: {
    script: `cat > a.go <<'END'
package main
import ("fmt"; "net"; "os/exec")
func main() { l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { panic(err) }; l.Close(); exec.Command("true").Run(); fmt.Println("go") }
END
go run a.go`,
    says: "go",
  },
  java: {
    script: `cat > A.java <<'END'
public class A { public static void main(String[] a) throws Exception { var t = new Thread(() -> {}); t.start(); t.join(); new java.net.ServerSocket(0).close(); new ProcessBuilder("true").start().waitFor(); System.out.println("java"); } }
END
java A.java`,
    says: "java",
  },
  bash: {
    script: `tar cf t /etc/os-release 2>/dev/null; mkdir x && tar xf t -C x && cp -a x y && chmod 700 y && chmod +t y && install -m 755 /bin/true z && mkfifo p && ln -s z l && ( umask 077; touch m ) && dd if=/dev/zero of=/dev/shm/s bs=1k count=1 2>/dev/null && echo done`,
    says: "done",
  },
};
