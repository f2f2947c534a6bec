import { useNavigate } from "@tanstack/react-router";
import { Bell } from "lucide-react";
import { useEffect, useState } from "react";
import type { Overview } from "../../../src/protocol/overview.ts";
import { say } from "../component/layout/toast.tsx";
import { nameOf } from "../place.ts";
import { declineNotices, hasDeclinedNotices } from "../settings.ts";

/**
 * Browser notifications about asks, for users who are not looking at the page. The page offers them when the first ask
 * appears, never before.
 */

type Ask = Overview["pending"][number];

/** Asks that the user has seen on the page or been notified of, so that this tab notifies once of each. */
const known = new Set<string>();

/** Browsers allow notifications on the computer's own address and over HTTPS only. */
const able = typeof Notification !== "undefined" && window.isSecureContext;

const tell = (ask: Ask, open: () => void): void => {
  const note = new Notification(ask.title, {
    body: `${nameOf(ask.directory)}: ${ask.prompt}`,
    // Of the notifications of several tabs, the browser shows one.
    tag: ask.id,
  });
  note.addEventListener("click", () => {
    window.focus();
    open();
    note.close();
  });
};

export const Notices = ({ asks }: { asks: readonly Ask[] }) => {
  const navigate = useNavigate();
  const [permission, setPermission] = useState(() => (able ? Notification.permission : "denied"));
  const [declined, setDeclined] = useState(hasDeclinedNotices);
  useEffect(() => {
    for (const ask of asks) {
      if (known.has(ask.id)) continue;
      known.add(ask.id);
      if (permission !== "granted" || !document.hidden) continue;
      tell(ask, () => {
        if (ask.taskID !== null) void navigate({ to: "/ui/task/$taskID", params: { taskID: ask.taskID } });
        else
          void navigate({
            to: "/ui/mission/$missionID",
            params: { missionID: ask.missionID ?? "" },
            search: { project: ask.directory },
          });
      });
    }
  }, [asks, permission, navigate]);

  if (permission !== "default" || declined || asks.length === 0) return null;
  return (
    <section
      aria-label="Notifications"
      className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line bg-need-tint px-4 py-2 text-sm sm:px-6"
    >
      <Bell size={16} aria-hidden="true" className="shrink-0 text-need" />
      <p className="min-w-52 flex-1">
        Get a browser notification when a Task asks a question while this page is in the background?
      </p>
      <span className="flex gap-2">
        <button
          type="button"
          className="button"
          onClick={() => {
            declineNotices();
            setDeclined(true);
          }}
        >
          No
        </button>
        <button
          type="button"
          className="button button-primary"
          onClick={() =>
            void Notification.requestPermission().then((given) => {
              setPermission(given);
              say(given === "granted" ? "Notifications are on" : "The browser blocks notifications from this page");
            })
          }
        >
          Notify me
        </button>
      </span>
    </section>
  );
};
