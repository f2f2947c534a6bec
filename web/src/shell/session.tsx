import { LogOut } from "lucide-react";
import { useEffect } from "react";
import { say } from "../component/layout/toast.tsx";

/**
 * The session of a browser that logged in by the service's form; one that was given the credentials otherwise has none.
 */

const lookMs = 15_000;

/** The mark beside the session's own cookie, which no script can read. It goes a little before that one. */
const isMarked = (): boolean => document.cookie.split("; ").includes(`sortie${window.location.port}-in=1`);

const begun = isMarked();

export const LogOutButton = () => {
  useEffect(() => {
    if (!begun) return undefined;
    // The form comes instead of the page, before a request would make the browser ask for credentials by itself.
    const timer = setInterval(() => {
      if (!isMarked()) window.location.reload();
    }, lookMs);
    return () => clearInterval(timer);
  }, []);
  if (!begun) return null;
  return (
    <button
      type="button"
      className="button button-quiet ml-auto px-2"
      aria-label="Log out"
      title="Log out"
      onClick={() =>
        void fetch("/logout", { method: "POST" }).then(
          () => window.location.assign("/"),
          () => say("The service cannot be reached"),
        )
      }
    >
      <LogOut size={17} aria-hidden="true" />
    </button>
  );
};
