/** A Task's title: the first line of the request, without Markdown decoration, at most 80 characters. */
export const titleOf = (request: string): string => {
  const first = request.split("\n").find((line) => line.trim() !== "") ?? "Task";
  const words = first.replace(/^[\s#>*-]+/, "").replace(/^\d{1,3}[.)]\s/, "");
  const plain = words.replace(/^\s*\[[ xX]\]/, "").trim() || first.trim();
  const characters = Array.from(plain);
  return characters.length <= 80 ? plain : `${characters.slice(0, 79).join("")}…`;
};
