import {
  Activity,
  BookOpen,
  Boxes,
  ChartNoAxesColumn,
  Cpu,
  FileLock2,
  ListChecks,
  Milestone,
  type LucideIcon,
  Webhook,
} from "lucide-react";

type Screen = {
  to:
    | "/"
    | "/ui/missions"
    | "/ui/squads"
    | "/ui/models"
    | "/ui/usage"
    | "/ui/webhooks"
    | "/ui/doctor"
    | "/ui/environment"
    | "/doc";
  words: string;
  icon: LucideIcon;
};

export const screens: readonly Screen[] = [
  { to: "/", words: "Tasks", icon: ListChecks },
  { to: "/ui/missions", words: "Missions", icon: Milestone },
  { to: "/ui/squads", words: "Squads", icon: Boxes },
  { to: "/ui/environment", words: "Environment", icon: FileLock2 },
  { to: "/ui/models", words: "Models", icon: Cpu },
  { to: "/ui/usage", words: "Usage", icon: ChartNoAxesColumn },
  { to: "/ui/webhooks", words: "Webhooks", icon: Webhook },
  { to: "/ui/doctor", words: "Doctor", icon: Activity },
  { to: "/doc", words: "API reference", icon: BookOpen },
];
