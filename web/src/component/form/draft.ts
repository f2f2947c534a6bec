import { useState } from "react";

/** A text that the user is writing, kept in this tab until it is sent, so that a reload loses nothing. */

const nameOf = (name: string): string => `sortie.draft.${name}`;

const read = (name: string): string => {
  try {
    return sessionStorage.getItem(nameOf(name)) ?? "";
  } catch {
    return "";
  }
};

export const useDraft = (name: string): [string, (text: string) => void] => {
  const [text, setText] = useState(() => read(name));
  const write = (next: string) => {
    try {
      if (next === "") sessionStorage.removeItem(nameOf(name));
      else sessionStorage.setItem(nameOf(name), next);
    } catch {}
    setText(next);
  };
  return [text, write];
};
