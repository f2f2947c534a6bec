/** A bar divided into coloured parts, which screen readers get in words. */
export type Share = { words: string; count: number; tone: string };

export const Progress = ({ label, shares }: { label: string; shares: readonly Share[] }) => {
  const there = shares.filter(({ count }) => count > 0);
  if (there.length === 0) return null;
  return (
    <div
      role="img"
      aria-label={`${label}: ${there.map(({ words, count }) => `${count} ${words}`).join(", ")}`}
      className="flex h-1 gap-1 overflow-hidden rounded-full"
    >
      {there.map(({ words, count, tone }) => (
        <span
          key={words}
          title={`${count} ${words}`}
          className={`h-full min-w-1 transition-[flex-grow] duration-500 ${tone}`}
          style={{ flexGrow: count, flexBasis: 0 }}
        />
      ))}
    </div>
  );
};
