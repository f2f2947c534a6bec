import { lexer, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode } from "react";

/**
 * Words of agents, which may hold anything. Markdown becomes elements of ours, never markup from a string: HTML in it is
 * shown as the text that it is, pictures of other places are links, and a link goes where only a web address goes.
 */

const safe = (href: string): string | undefined => (/^(?:https?:|mailto:)/i.test(href) ? href : undefined);

const Anchor = ({ href, children }: { href: string; children: ReactNode }) => {
  const to = safe(href);
  return to === undefined ? (
    <>{children}</>
  ) : (
    <a href={to} target="_blank" rel="noreferrer noopener" className="link">
      {children}
    </a>
  );
};

/** The lexer escapes what stands in plain text; React does so again. */
const plain = (text: string): string =>
  text.replaceAll(
    /&(amp|lt|gt|quot|#39);/g,
    (_, name: string) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name] ?? "",
  );

const all = (tokens: readonly Token[] | undefined): ReactNode =>
  (tokens ?? []).map((token, index) => <Fragment key={index}>{one(token as Tokens.Generic)}</Fragment>);

const one = (token: Tokens.Generic): ReactNode => {
  const inside = () => (token.tokens === undefined ? plain(String(token["text"] ?? token.raw)) : all(token.tokens));
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p>{inside()}</p>;
    case "heading": {
      // Headings within a message do not enter the page's own outline above the third level.
      const Level = token["depth"] <= 2 ? "h3" : "h4";
      return <Level>{inside()}</Level>;
    }
    case "code":
      return (
        // A region that scrolls is reached by the keyboard.
        <div>
          {/* The file that a block is for stands behind its language. */}
          {/file=/.test(String(token["lang"])) && (
            <p className="mb-1 font-mono text-xs text-soft">{/file=(\S+)/.exec(String(token["lang"]))?.[1]}</p>
          )}
          <pre tabIndex={0} aria-label={token["lang"] ? `Code, ${token["lang"]}` : "Code"} role="region">
            {String(token["text"])}
          </pre>
        </div>
      );
    case "codespan":
      return <code>{plain(String(token["text"]))}</code>;
    case "strong":
      return <strong>{inside()}</strong>;
    case "em":
      return <em>{inside()}</em>;
    case "del":
      return <del>{inside()}</del>;
    case "br":
      return <br />;
    case "hr":
      return <hr className="my-3 border-line" />;
    case "blockquote":
      return <blockquote>{inside()}</blockquote>;
    case "link":
      return <Anchor href={String(token["href"])}>{inside()}</Anchor>;
    case "image":
      return <Anchor href={String(token["href"])}>{`[picture: ${String(token["text"] || token["href"])}]`}</Anchor>;
    case "list": {
      const List = token["ordered"] === true ? "ol" : "ul";
      const start = typeof token["start"] === "number" && token["start"] !== 1 ? { start: token["start"] } : {};
      return (
        <List {...start}>
          {(token["items"] as Tokens.ListItem[]).map((item, index) => (
            <li key={index}>
              {item.task && (
                <input
                  type="checkbox"
                  checked={item.checked === true}
                  readOnly
                  disabled
                  aria-label="Done"
                  className="mr-2"
                />
              )}
              {all(item.tokens)}
            </li>
          ))}
        </List>
      );
    }
    case "table": {
      const { header, rows } = token as unknown as Tokens.Table;
      return (
        <table>
          <thead>
            <tr>
              {header.map((cell, index) => (
                <th key={index}>{all(cell.tokens)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column}>{all(cell.tokens)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    }
    default:
      // Text, an escape, HTML: as it stands.
      return token.type === "html" ? token.raw : inside();
  }
};

export const Markdown = memo(({ text }: { text: string }) => (
  <div className="prose-words" dir="auto">
    {all(lexer(text))}
  </div>
));
