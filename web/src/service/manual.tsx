import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { wordsOf } from "../api.ts";
import { Failure, Missing, Waiting } from "../component/layout/empty.tsx";
import { Screen } from "../component/layout/screen.tsx";
import { Markdown } from "../component/text/markdown.tsx";

/** A manual of the package. The service's messages name it by this screen's path. */

const files = import.meta.glob<string>(
  [
    "../../../docs/configuration.md",
    "../../../docs/guide.md",
    "../../../docs/interface.md",
    "../../../docs/operations.md",
    "../../../docs/repositories.md",
    "../../../docs/rules.md",
    "../../../docs/security.md",
    "../../../docs/squads.md",
  ],
  { query: "?raw", import: "default" },
);

const loads = new Map(
  Object.entries(files).map(([path, load]) => [path.slice(path.lastIndexOf("/") + 1, -".md".length), load]),
);

/** Makes links to other manuals lead to their screens; links to other files of the repository become plain words. */
const linked = (text: string): string =>
  text.replaceAll(/\]\(([\w-]+)\.md(?:#[\w-]*)?\)/g, (whole, name: string) =>
    loads.has(name) ? `](${window.location.origin}/ui/manual/${name})` : whole,
  );

const route = getRouteApi("/ui/manual/$name");

export const Manual = () => {
  const { name } = route.useParams();
  const load = loads.get(name);
  const { data, error, refetch } = useQuery({
    queryKey: ["manual", name],
    queryFn: async () => (await load?.()) ?? null,
    enabled: load !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (load === undefined) return <Missing />;
  if (error !== null) return <Failure words={wordsOf(error)} onRetry={() => void refetch()} />;
  const [, title = "Manual", text = ""] = /^# (.+)\n([\s\S]*)/.exec(data ?? "") ?? [];
  return (
    <Screen title={title}>
      {data == null ? (
        <Waiting lines={8} />
      ) : (
        <section aria-label="Manual">
          {/* The headings of the manual begin at the third level. */}
          <h2 className="sr-only">Manual</h2>
          <Markdown text={linked(text)} />
        </section>
      )}
    </Screen>
  );
};
