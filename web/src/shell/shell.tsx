import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { Command, Keyboard, Menu, Monitor, Moon, Sun, X } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { health, overview } from "../api.ts";
import { Toasts } from "../component/layout/toast.tsx";
import { type Theme, useTheme } from "../settings.ts";
import { useConnection } from "../live.ts";
import { useNow } from "../component/text/time.tsx";
import { clock } from "../format.ts";
import { useKeys } from "../component/keyboard.ts";
import { Projects } from "./projects.tsx";
import { screens } from "./screens.ts";
import { LogOutButton } from "./session.tsx";

/** The frame around every screen: navigation, the state of the live connection, and the model in use. */

const Notices = lazy(() => import("./notices.tsx").then(({ Notices }) => ({ default: Notices })));

const loadPalette = () => import("./palette.tsx").then(({ Palette }) => ({ default: Palette }));
const Palette = lazy(loadPalette);
/** The palette is loaded after the first rendering, because a user who opens it types at once. */
const palettePauseMs = 300;
const Help = lazy(() => import("./help.tsx").then(({ Help }) => ({ default: Help })));

/** The notifications, which are not loaded before there is an ask. */
const WhereNeeded = () => {
  const { data } = useQuery(overview);
  const asks = data?.pending ?? [];
  const [needed, setNeeded] = useState(false);
  if (asks.length > 0 && !needed) setNeeded(true);
  return needed ? (
    <Suspense fallback={null}>
      <Notices asks={asks} />
    </Suspense>
  ) : null;
};

const Mark = () => (
  <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" className="shrink-0">
    <path d="M10 1.5 17.5 18 10 14.2 2.5 18Z" className="fill-ink" />
    <path d="M10 1.5V14.2L2.5 18Z" className="fill-accent" />
  </svg>
);

const themes: Record<Theme, { icon: typeof Sun; words: string; next: Theme }> = {
  system: { icon: Monitor, words: "System theme", next: "light" },
  light: { icon: Sun, words: "Light theme", next: "dark" },
  dark: { icon: Moon, words: "Dark theme", next: "system" },
};

const ThemeButton = () => {
  const [theme, setTheme] = useTheme();
  const { icon: Icon, words, next } = themes[theme];
  return (
    <button
      type="button"
      className="button button-quiet px-2"
      onClick={() => setTheme(next)}
      aria-label={`${words}; change to: ${themes[next].words.toLowerCase()}`}
      title={words}
    >
      <Icon size={17} aria-hidden="true" />
    </button>
  );
};

const Navigation = ({ onGo }: { onGo?: () => void }) => (
  <nav aria-label="Screens" className="flex flex-col gap-1">
    {screens.map(({ to, words, icon: Icon }) => {
      const look =
        "flex items-center gap-3 rounded-lg px-3 py-2 text-soft transition-colors hover:bg-hover hover:text-ink [&.active]:bg-hover [&.active]:font-medium [&.active]:text-ink";
      const inside = (
        <>
          <Icon size={17} aria-hidden="true" className="shrink-0" />
          {words}
        </>
      );
      return to === "/doc" ? (
        <a key={to} href={to} className={look}>
          {inside}
        </a>
      ) : (
        <Link
          key={to}
          to={to}
          className={look}
          activeOptions={{ exact: to === "/", includeSearch: false }}
          {...(onGo === undefined ? {} : { onClick: onGo })}
        >
          {inside}
        </Link>
      );
    })}
  </nav>
);

const Works = () => {
  const { data } = useQuery(health);
  if (data === undefined) return null;
  const rules = data.model.ref.startsWith("builtin/");
  return (
    <Link to="/ui/models" className="block rounded-lg px-3 py-2 hover:bg-hover">
      <span className="label block">Model</span>
      <span className="block truncate text-sm text-soft" title={data.model.ref}>
        {rules ? "Built-in rules" : data.model.ref}
      </span>
      <span className="label mt-2 block">Sandbox</span>
      <span className="block truncate text-sm text-soft">
        {data.sandbox.name}, tier {data.sandbox.tier}
      </span>
    </Link>
  );
};

const Lost = () => {
  const connection = useConnection();
  const lost = connection.state === "lost";
  const now = useNow(lost);
  const seconds = lost ? Math.max(0, Math.ceil((connection.retryAt - now) / 1000)) : 0;
  return (
    <>
      {/* Announced once; the seconds are only visible. */}
      <p role="status" className="sr-only">
        {lost ? `Connection lost. Showing the state as of ${clock(connection.since)}.` : ""}
      </p>
      {lost && (
        <p
          aria-hidden="true"
          data-testid="lost"
          className="animate-rise border-b border-line bg-need-tint px-4 py-2 text-center text-sm font-medium text-need"
        >
          Connection lost, {seconds > 0 ? `retrying in ${seconds} s` : "retrying now"}. Showing the state as of{" "}
          {clock(connection.since)}.
        </p>
      )}
    </>
  );
};

export const Shell = () => {
  const navigate = useNavigate();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const path = useRouterState({ select: ({ location }) => location.pathname });
  useEffect(() => setMenu(false), [path]);
  useEffect(() => {
    const later = setTimeout(() => void loadPalette(), palettePauseMs);
    return () => clearTimeout(later);
  }, []);
  useKeys({
    "mod+k": (event) => {
      event.preventDefault();
      setPalette((open) => !open);
    },
    "?": () => setHelp(true),
    c: (event) => {
      event.preventDefault();
      void navigate({ to: "/", hash: "new" });
    },
    Escape: () => {
      if (document.activeElement instanceof HTMLElement && document.activeElement !== document.body)
        document.activeElement.blur();
      else if (path !== "/") void navigate({ to: "/" });
    },
  });
  return (
    <div className="flex h-dvh flex-col lg:flex-row">
      <a
        href="#main"
        className="sr-only rounded-lg bg-ink px-4 py-2 text-page focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50"
      >
        To the content
      </a>
      <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3 lg:hidden">
        <button
          type="button"
          className="button button-quiet px-2"
          aria-expanded={menu}
          aria-controls="menu"
          aria-label={menu ? "Close the menu" : "Open the menu"}
          onClick={() => setMenu(!menu)}
        >
          {menu ? <X size={18} aria-hidden="true" /> : <Menu size={18} aria-hidden="true" />}
        </button>
        <Link to="/" className="flex items-center gap-2 font-semibold">
          <Mark />
          Sortie
        </Link>
        <span className="flex-1" />
        <button type="button" className="button button-quiet px-2" onClick={() => setPalette(true)} aria-label="Go to">
          <Command size={17} aria-hidden="true" />
        </button>
        <ThemeButton />
      </header>
      {menu && (
        <div
          id="menu"
          className="max-h-[80dvh] animate-rise overflow-y-auto border-b border-line bg-card p-3 shadow-float lg:hidden"
        >
          <Projects onGo={() => setMenu(false)} />
          <hr className="my-2 border-line" />
          <Navigation onGo={() => setMenu(false)} />
          <div className="flex">
            <LogOutButton />
          </div>
        </div>
      )}
      <aside className="hidden w-58 shrink-0 flex-col border-r border-line bg-sunk px-3 py-4 lg:flex">
        <Link to="/" className="mb-5 flex items-center gap-2 px-3 text-md font-semibold tracking-tight">
          <Mark />
          Sortie
        </Link>
        <button
          type="button"
          onClick={() => setPalette(true)}
          className="mb-4 flex items-center gap-2 rounded-lg border border-line bg-card px-3 py-1 text-sm text-faint hover:border-edge"
        >
          <span className="flex-1 text-left">Go to</span>
          <kbd className="key">Ctrl K</kbd>
        </button>
        <div className="-mx-1 min-h-0 flex-1 overflow-y-auto px-1">
          <Projects />
          <hr className="my-3 border-line" />
          <Navigation />
        </div>
        <Works />
        <div className="mt-2 flex items-center gap-1 border-t border-line pt-2">
          <ThemeButton />
          <button
            type="button"
            className="button button-quiet px-2"
            onClick={() => setHelp(true)}
            aria-label="Keyboard help"
            title="Keyboard help"
          >
            <Keyboard size={17} aria-hidden="true" />
          </button>
          <LogOutButton />
        </div>
      </aside>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <Lost />
        <WhereNeeded />
        <main id="main" tabIndex={-1} className="min-h-0 flex-1 overflow-auto outline-none">
          <Outlet />
        </main>
      </div>
      <Suspense fallback={null}>
        {palette && <Palette open onClose={() => setPalette(false)} />}
        {help && <Help open onClose={() => setHelp(false)} />}
      </Suspense>
      <Toasts />
    </div>
  );
};
