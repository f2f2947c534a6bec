import { Ellipsis } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";

/** The menu behind the three dots: actions that have no button. */

const look = "cursor-pointer rounded-md px-3 py-1 outline-none data-[highlighted]:bg-hover data-[disabled]:opacity-50";

export const Menu = ({ children }: { children: ReactNode }) => (
  <DropdownMenu.Root modal={false}>
    <DropdownMenu.Trigger className="button px-2" aria-label="More actions">
      <Ellipsis size={17} aria-hidden="true" />
    </DropdownMenu.Trigger>
    <DropdownMenu.Portal>
      <DropdownMenu.Content
        align="end"
        sideOffset={6}
        collisionPadding={12}
        className="z-40 min-w-48 rounded-xl border border-line bg-card p-1 shadow-float"
      >
        {children}
      </DropdownMenu.Content>
    </DropdownMenu.Portal>
  </DropdownMenu.Root>
);

export const MenuItem = ({
  danger = false,
  disabled = false,
  onSelect,
  children,
}: {
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
  children: ReactNode;
}) => (
  <DropdownMenu.Item className={danger ? `${look} text-fail` : look} disabled={disabled} onSelect={onSelect}>
    {children}
  </DropdownMenu.Item>
);

export const MenuLine = () => <DropdownMenu.Separator className="my-1 h-px bg-line" />;

/** A choice between several values; the present one is marked. */
export const MenuChoice = <T extends string>({
  label,
  value,
  of,
  onChange,
}: {
  label: string;
  value: T;
  of: readonly T[];
  onChange: (value: T) => void;
}) => (
  <>
    <DropdownMenu.Label className="label px-3 py-1">{label}</DropdownMenu.Label>
    <DropdownMenu.RadioGroup value={value} onValueChange={(next) => onChange(next as T)}>
      {of.map((word) => (
        <DropdownMenu.RadioItem key={word} value={word} className={`${look} flex justify-between capitalize`}>
          {word}
          <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
        </DropdownMenu.RadioItem>
      ))}
    </DropdownMenu.RadioGroup>
  </>
);
