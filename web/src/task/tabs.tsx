import { Tabs } from "radix-ui";
import type { ReactNode } from "react";
import { type Tab, tabs } from "../search.ts";

const words: Record<Tab, string> = {
  result: "Result",
  conversation: "Conversation",
  changes: "Changes",
  checks: "Checks",
  topology: "Topology",
  events: "Events",
};

export const TabBar = ({
  tab,
  ended,
  onTab,
  counts,
  alarms,
}: {
  tab: Tab;
  ended: boolean;
  onTab: (tab: Tab) => void;
  counts: Partial<Record<Tab, number>>;
  alarms: Partial<Record<Tab, number>>;
}) => (
  <Tabs.Root value={tab} onValueChange={(value) => onTab(value as Tab)} activationMode="manual">
    <Tabs.List aria-label="Parts of the Task" className="flex gap-1 overflow-x-auto border-b border-line px-2 sm:px-4">
      {tabs
        .filter((name) => ended || name !== "result")
        .map((name) => (
          <Tabs.Trigger
            key={name}
            value={name}
            id={`tab-${name}`}
            aria-controls="panel"
            className="flex items-center gap-2 border-b-2 border-transparent px-2 py-2 whitespace-nowrap text-soft -outline-offset-2 transition-colors hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {words[name]}
            {(counts[name] ?? 0) > 0 && (
              <span
                className={`tabular rounded-full px-1 text-xs ${(alarms[name] ?? 0) > 0 ? "bg-fail-tint text-fail" : "bg-hover text-soft"}`}
              >
                {(alarms[name] ?? 0) > 0 ? `${alarms[name]} of ${counts[name]} failed` : counts[name]}
              </span>
            )}
          </Tabs.Trigger>
        ))}
    </Tabs.List>
  </Tabs.Root>
);

export const TabPanel = ({ tab, children }: { tab: Tab; children: ReactNode }) => (
  <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} className="relative min-h-24 flex-1 overflow-clip">
    {children}
  </div>
);
