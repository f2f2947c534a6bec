import { lexer, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode } from "react";

/**
 * Renders Markdown of agents, which may contain anything. It uses the page's own elements, never a string of HTML: HTML
 * in it is shown as text, external images become links, and links lead to web and mail addresses only.
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

/** Undoes the lexer's escapes, because React escapes the text as well. */
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
      // Headings within a message start at the third level of the page's outline.
      const Level = token["depth"] <= 2 ? "h3" : "h4";
      return <Level>{inside()}</Level>;
    }
    case "code":
      return (
        // A scrollable region must be reachable by keyboard.
        <div>
          {/* The file name of a code block follows its language. */}
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
      // Text, escapes and HTML are shown unchanged.
      return token.type === "html" ? token.raw : inside();
  }
};

export const Markdown = memo(({ text }: { text: string }) => (
  <div className="prose-words" dir="auto">
    {all(lexer(text))}
  </div>
));
