/**
 * Where the files of a message stand in the workspace, relative to its root. Told to the model and written by the run, so
 * both come from here. The folder ignores itself (`.gitignore`), so that nothing in it is ever committed.
 */

export const attachmentFolder = ".sortie/attachments";

export const attachmentPaths = (messageID: string, filenames: readonly string[]): string[] =>
  filenames.map((filename, index) => {
    const again = filenames.indexOf(filename) < index ? `${index + 1}-` : "";
    // Names that git or our own files would take for something else.
    const plain = filename.replaceAll(/[\\/\0]/g, "_").replace(/^(?:\.|git~)/i, (start) => `_${start}`);
    return `${attachmentFolder}/${messageID.slice(-8)}/${again}${plain}`;
  });
