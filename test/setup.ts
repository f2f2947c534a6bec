import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Around the whole run: one loud line says what did not run for want of PostgreSQL (test/postgres.ts). */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "sortie-skips-"));
  const file = join(folder, "skips");
  process.env["TEST_SKIPS"] = file;
  process.env["TEST_COMPILED"] = join(folder, "compiled");
  return () => {
    const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    const tiers = existsSync(`${file}-tiers`) ? readFileSync(`${file}-tiers`, "utf8").trim().split("\n") : [];
    rmSync(folder, { recursive: true, force: true });
    for (const tier of new Set(tiers))
      process.stderr.write(
        `\n!!! TESTS SKIPPED: sandbox tier ${tier} does not work here (bubblewrap 0.8, util-linux).\n\n`,
      );
    const count = lines.reduce((sum, line) => sum + Number(line.split(" ")[0]), 0);
    const where = lines[0]?.replace(/^\d+ /, "");
    if (count > 0)
      process.stderr.write(
        `\n!!! ${count} TESTS SKIPPED: no PostgreSQL answers at ${where}. Set SERVICE_TEST_DATABASE_URL.\n\n`,
      );
  };
}
