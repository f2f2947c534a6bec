import needed from "./mark-needed.svg";
import mark from "./mark.svg";

/** The title of the browser's tab: the screen's title, and the number of asks that wait for an answer. */

let own = "Sortie";
let waiting = 0;

const write = (): void => {
  document.title = waiting === 0 ? own : `(${waiting}) ${own}`;
};

export const setTitle = (words: string): void => {
  own = words === "" ? "Sortie" : `${words} · Sortie`;
  write();
};

export const setWaiting = (count: number): void => {
  waiting = count;
  write();
  const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  const wanted = count === 0 ? mark : needed;
  if (icon !== null && icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
};
