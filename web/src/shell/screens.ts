import {
  Activity,
  BookOpen,
  Boxes,
  ChartNoAxesColumn,
  Cpu,
  ListChecks,
  Milestone,
  type LucideIcon,
  Webhook,
} from "lucide-react";

type Screen = {
  to: "/" | "/ui/missions" | "/ui/squads" | "/ui/models" | "/ui/usage" | "/ui/webhooks" | "/ui/doctor" | "/doc";
  words: string;
  icon: LucideIcon;
};

export const screens: readonly Screen[] = [
  { to: "/", words: "Tasks", icon: ListChecks },
  { to: "/ui/missions", words: "Missions", icon: Milestone },
  { to: "/ui/squads", words: "Squads", icon: Boxes },
  { to: "/ui/models", words: "Models", icon: Cpu },
  { to: "/ui/usage", words: "Usage", icon: ChartNoAxesColumn },
  { to: "/ui/webhooks", words: "Webhooks", icon: Webhook },
  { to: "/ui/doctor", words: "Doctor", icon: Activity },
  { to: "/doc", words: "API reference", icon: BookOpen },
];
