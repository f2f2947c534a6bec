/** Reads separated values as in RFC 4180: quoted fields may contain separators, doubled quotes and line breaks. */

/** How many rows and columns are shown. */
export const mostRows = 200;
export const mostColumns = 40;

export const readTable = (text: string, separator: "," | "\t"): string[][] => {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  const endField = () => {
    row.push(field);
    field = "";
  };
  const endRow = () => {
    endField();
    rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length && rows.length <= mostRows; at += 1) {
    const character = text[at] ?? "";
    if (quoted) {
      if (character !== '"') field += character;
      else if (text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else quoted = false;
    } else if (character === '"' && field === "") quoted = true;
    else if (character === separator) endField();
    else if (character === "\n") endRow();
    else if (character !== "\r") field += character;
  }
  if (field !== "" || row.length > 0) endRow();
  return rows;
};
