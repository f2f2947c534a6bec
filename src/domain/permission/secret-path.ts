/** File names that usually hold secrets. */

/** Private keys have no extension: `id_ed25519` matches, `id_table.sql` and `id_rsa.pub` do not. */
export const isSecret = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return (name.startsWith(".env") && name !== ".env.example") || /\.(pem|key)$/.test(name) || /^id_[^.]*$/.test(name);
};
