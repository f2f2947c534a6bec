/** A file that the user attached, in the form that a request sends. */
export type Attached = { filename: string; mime: string; data: string; bytes: number };

const read = (file: File): Promise<Attached> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("error", () => reject(reader.error ?? new Error("unreadable")));
    reader.addEventListener("load", () => {
      const url = reader.result as string;
      resolve({
        filename: file.name,
        mime: file.type === "" ? "application/octet-stream" : file.type,
        data: url.slice(url.indexOf(",") + 1),
        bytes: file.size,
      });
    });
    reader.readAsDataURL(file);
  });

export const readFiles = (files: FileList | null): Promise<Attached[]> => Promise.all([...(files ?? [])].map(read));
