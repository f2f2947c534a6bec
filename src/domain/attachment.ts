/**
 * Where a message's files are in the workspace, relative to its root. The model is told these paths and the run writes
 * the files, so both get them from here. The folder ignores itself (`.gitignore`), so its content is never committed.
 */

export const attachmentFolder = ".sortie/attachments";

export const attachmentPaths = (messageID: string, filenames: readonly string[]): string[] =>
  filenames.map((filename, index) => {
    const again = filenames.indexOf(filename) < index ? `${index + 1}-` : "";
    // Replaces names that would have a special meaning for Git or for our own files.
    const plain = filename.replaceAll(/[\\/\0]/g, "_").replace(/^(?:\.|git~)/i, (start) => `_${start}`);
    return `${attachmentFolder}/${messageID.slice(-8)}/${again}${plain}`;
  });
