/** File names that usually hold secrets. */

/** A private key's name has no ending: `id_ed25519`, but not `id_table.sql` and not `id_rsa.pub`. */
export const isSecret = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return (name.startsWith(".env") && name !== ".env.example") || /\.(pem|key)$/.test(name) || /^id_[^.]*$/.test(name);
};
