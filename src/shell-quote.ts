/** One word of a POSIX shell: whatever the text holds, the shell reads it as is. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
