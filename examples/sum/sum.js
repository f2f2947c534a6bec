/** Reads an amount such as "12.50"; at most two decimals. */
export const parseAmount = (text) => {
  if (!/^-?\d+(\.\d{1,2})?$/.test(text)) throw new RangeError(`Expected an amount such as 12.50, got "${text}"`);
  return Number(text);
};

/** Adds up amounts of money. */
export const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);
