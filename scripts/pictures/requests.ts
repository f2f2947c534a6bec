import { patch } from "../../src/cli/demo/stage.ts";

/** What is asked for in the pictures. The embedded rules carry these out as they stand. */

export const fix = `The fix for cents that drift (0.1 + 0.2 is 0.30000000000000004):

\`\`\`diff
${patch}\`\`\`
`;

export const block = (file: string, text: string) => `\`\`\`js file=${file}\n${text}\n\`\`\``;

/** A request of several parts, which the rules divide among the agents of a squad. */
export const parts = `How amounts are shown:

${block("format.js", '/** As people write them: 12,50. */\nexport const format = (amount) => amount.toFixed(2).replace(".", ",");')}

How they are read from a file, one a line:

${block("lines.js", 'import { readFileSync } from "node:fs";\n\nexport const readLines = (path) => readFileSync(path, "utf8").trim().split("\\n");')}

How all of it is used:

${block("docs/usage.md", "# Use\n\nAmounts as arguments: `node cli.js 12.50 0.99`.")}
`;

/** A page that a check looks at. */
export const page = (total: string) => `<!doctype html>
<meta charset="utf-8"><title>Sum</title>
<body style="margin:0;font:20px sans-serif;color:#1c2430;background:#f6f7f9">
<main style="max-width:520px;margin:48px auto;padding:32px;background:#fff;border-radius:12px">
<h1 style="margin:0 0 16px;font-size:26px">Your amounts</h1>
<p>Bread 0.10</p><p>Salt 0.20</p><hr>
<p><strong>Total ${total}</strong></p>
</main></body>
`;

export const server = `import { createServer } from "node:http";
import { readFileSync } from "node:fs";
createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end(readFileSync("page.html"))).listen(Number(process.argv[2]), "127.0.0.1");
`;
