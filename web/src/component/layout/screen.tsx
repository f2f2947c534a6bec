import { type ReactNode, useEffect } from "react";
import { setTitle } from "../../title.ts";

/** A screen with a heading and margins. */
export const Screen = ({
  title,
  about,
  aside,
  children,
}: {
  title: string;
  about?: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
}) => {
  useEffect(() => {
    setTitle(title);
  }, [title]);
  return (
    <div className="mx-auto flex w-full max-w-5xl flex-col gap-6 px-4 py-6 sm:px-8 sm:py-10">
      <header className="flex flex-wrap items-start justify-between gap-4">
        <div className="min-w-0">
          <h1 className="text-lg font-semibold tracking-tight">{title}</h1>
          {about !== undefined && <p className="mt-1 max-w-2xl text-soft">{about}</p>}
        </div>
        {aside}
      </header>
      {children}
    </div>
  );
};

export const Fact = ({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) => (
  <div className={`flex min-w-0 flex-col gap-1 ${wide ? "col-span-full" : ""}`}>
    <dt className="label">{label}</dt>
    <dd className="min-w-0">{children}</dd>
  </div>
);
