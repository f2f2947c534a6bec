/** A line of the service's own text, in which code is between backticks. */
export const Inline = ({ text }: { text: string }) => (
  <>
    {text.split(/(`[^`\n]+`)/).map((part, index) =>
      index % 2 === 1 ? (
        <code key={index} className="typed">
          {part.slice(1, -1).trim()}
        </code>
      ) : (
        part
      ),
    )}
  </>
);
