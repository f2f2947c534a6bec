import { LogOut } from "lucide-react";
import { useEffect } from "react";
import { say } from "../component/layout/toast.tsx";

/**
 * The session of a browser that logged in with the service's form. A browser that got the credentials in another way
 * has no session.
 */

const lookMs = 15_000;

/**
 * Whether the cookie that marks a session is set. Scripts cannot read the session's own cookie; this one expires a
 * little earlier.
 */
const isMarked = (): boolean => document.cookie.split("; ").includes(`sortie${window.location.port}-in=1`);

const begun = isMarked();

export const LogOutButton = () => {
  useEffect(() => {
    if (!begun) return undefined;
    // Shows the log-in form in time, before a request would make the browser ask for credentials by itself.
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
