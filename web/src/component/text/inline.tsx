/** A line of the service's own text, in which backticks mark code and manuals are named by their path. */
export const Inline = ({ text }: { text: string }) => (
  <>
    {text.split(/(`[^`\n]+`|(?<![\w./-])\/ui\/manual\/[a-z]+)/).map((part, index) =>
      index % 2 === 0 ? (
        part
      ) : part.startsWith("`") ? (
        <code key={index} className="typed">
          {part.slice(1, -1).trim()}
        </code>
      ) : (
        <a key={index} href={part} target="_blank" rel="noopener" className="link">
          {part}
        </a>
      ),
    )}
  </>
);
