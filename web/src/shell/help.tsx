import { Dialog } from "../component/layout/dialog.tsx";
import { keyWords } from "../component/keyboard.ts";

export const Help = ({ open, onClose }: { open: boolean; onClose: () => void }) => (
  <Dialog open={open} onClose={onClose} title="Keyboard">
    <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-5 gap-y-2">
      {keyWords.map(([keys, words]) => (
        <div key={keys} className="contents">
          <dt className="flex gap-1 whitespace-nowrap">
            {keys.split(/ +/).map((key) =>
              key === "to" ? (
                <span key={key} className="text-faint">
                  to
                </span>
              ) : (
                <kbd key={key} className="key">
                  {key}
                </kbd>
              ),
            )}
          </dt>
          <dd className="text-soft">{words}</dd>
        </div>
      ))}
    </dl>
  </Dialog>
);
