/** A text with the lines of a diff coloured, if it contains one. */

/** Texts with more lines are not coloured, because each line is an element. */
const most = 2000;

const toneOf = (line: string): string => {
  if (/^(?:\+\+\+|---|@@|diff --git|index )/.test(line)) return "text-faint";
  if (line.startsWith("+")) return "bg-done-tint text-done";
  return line.startsWith("-") ? "bg-fail-tint text-fail" : "";
};

export const DiffText = ({ text }: { text: string }) => {
  const lines = text.split("\n");
  const begin = lines.findIndex(
    (line, index) => line.startsWith("@@") || (line.startsWith("--- ") && lines[index + 1]?.startsWith("+++ ")),
  );
  if (begin < 0 || lines.length > most) return <>{text}</>;
  return (
    <>
      {lines.slice(0, begin).join("\n")}
      {lines.slice(begin).map((line, index) => (
        <span key={index} className={`-mx-2 block px-2 ${toneOf(line)}`}>
          {line === "" ? " " : line}
        </span>
      ))}
    </>
  );
};
