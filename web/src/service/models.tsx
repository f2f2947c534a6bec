import { useQuery } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleDashed } from "lucide-react";
import { type FormEvent, useState } from "react";
import { type client, models, wordsOf } from "../api.ts";
import { Failure, Waiting } from "../component/layout/empty.tsx";
import { Inline } from "../component/text/inline.tsx";
import { Fact, Screen } from "../component/layout/screen.tsx";
import { pausedWords } from "./breaker.ts";
import { Connect } from "../model/connect.tsx";
import { TestButton, TestResult, useTrial } from "../model/trial.tsx";

/** Which model is used and why, and which others are available. Of a key, only its source is shown. */

type Known = NonNullable<Awaited<ReturnType<typeof client.service.models>>["data"]>;
type Provider = Known["providers"][number];

const isRules = (ref: string): boolean => ref.startsWith("builtin/");

const Active = ({ known: { active, failover } }: { known: Known }) => {
  const trial = useTrial();
  const rules = isRules(active.ref);
  return (
    <section aria-label="Active model" className="card flex flex-col gap-4 p-5">
      <div className="flex flex-wrap items-start gap-x-10 gap-y-4">
        <dl className="flex min-w-0 flex-1 flex-wrap gap-x-10 gap-y-4">
          <Fact label="Active">
            <span className="text-lg font-semibold">{rules ? "Built-in rules" : active.ref}</span>
          </Fact>
          <Fact label="Why">
            <span className="leading-7 text-soft">{active.source}</span>
          </Fact>
          {failover.length > 0 && (
            <Fact label="Failover">
              <span className="leading-7">{failover.join(", then ")}</span>
            </Fact>
          )}
        </dl>
        {!rules && active.ref !== "none" && <TestButton trial={trial} model={active.ref} />}
      </div>
      <TestResult trial={trial} />
      {rules && (
        <p className="text-soft">
          No language model is set up. The built-in rules carry out only requests that spell out the change, and refuse
          the rest.
        </p>
      )}
    </section>
  );
};

const ModelLine = ({ model }: { model: string }) => {
  const trial = useTrial();
  return (
    <li className="flex flex-col gap-2 py-1">
      <div className="flex items-center gap-3">
        <code className="min-w-0 flex-1 font-mono text-xs text-soft">{model}</code>
        <TestButton trial={trial} model={model} />
      </div>
      <TestResult trial={trial} />
    </li>
  );
};

const ProviderRow = ({ provider }: { provider: Provider }) => {
  const { configured, keySource, baseURL, breaker } = provider;
  const paused = pausedWords(breaker);
  const open = paused !== undefined;
  const callable = configured && provider.kind !== "builtin";
  return (
    <li className="flex items-start gap-4 px-4 py-4 sm:px-5">
      <span className="mt-0.5 shrink-0">
        {open ? (
          <CircleAlert size={18} aria-hidden="true" className="text-need" />
        ) : configured ? (
          <CircleCheck size={18} aria-hidden="true" className="text-done" />
        ) : (
          <CircleDashed size={18} aria-hidden="true" className="text-faint" />
        )}
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium">
          {provider.name} <span className="text-sm font-normal text-faint">{provider.id}</span>
        </p>
        <p className="text-sm text-soft">
          {open ? "Failing" : configured ? "Ready" : "No key"}
          {configured && (keySource === null ? ", needs no key" : `, key from ${keySource}`)}
          {baseURL !== null && ` · ${baseURL}`}
        </p>
        {paused !== undefined && <p className="text-sm text-need">{paused}</p>}
        {callable && provider.models.length > 0 && (
          <ul aria-label={`Models of ${provider.name}`} className="mt-2 divide-y divide-line border-t border-line">
            {provider.models.map((name) => (
              <ModelLine key={name} model={`${provider.id}/${name}`} />
            ))}
          </ul>
        )}
      </div>
    </li>
  );
};

const Other = () => {
  const trial = useTrial();
  const [name, setName] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() !== "" && !trial.isPending) trial.mutate(name.trim());
  };
  return (
    <section aria-label="Another model" className="flex flex-col gap-3">
      <h2 className="font-semibold">Another model</h2>
      <p className="max-w-2xl text-soft">
        <Inline text="A provider may offer more models than are listed here. A test makes one real call, which may be charged for; it shows how fast the model responds and whether tool calls work. `sortie model use` sets the model from the next start." />
      </p>
      <form className="flex max-w-xl gap-2" onSubmit={submit}>
        <input
          aria-label="Name of a model"
          className="field font-mono text-sm"
          placeholder="provider/model"
          spellCheck={false}
          autoCapitalize="off"
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
        <TestButton trial={trial} model={name.trim()} />
      </form>
      <TestResult trial={trial} />
    </section>
  );
};

export const Models = () => {
  const { data, error, refetch } = useQuery({ ...models, refetchInterval: 5_000 });
  const ready = data?.providers.filter(({ configured }) => configured) ?? [];
  const others = data?.providers.filter(({ configured }) => !configured) ?? [];
  return (
    <Screen
      title="Models"
      about="The model in use, why, and where the keys come from. A Task keeps the model it started with."
    >
      {data === undefined &&
        (error === null ? <Waiting lines={6} /> : <Failure words={wordsOf(error)} onRetry={() => void refetch()} />)}
      {data !== undefined && (
        <>
          <Active known={data} />
          <section aria-label="Connect" className="flex flex-col gap-3">
            <h2 className="font-semibold">{isRules(data.active.ref) ? "Connect a model" : "Another key"}</h2>
            <Connect />
          </section>
          {(
            [
              ["Ready", ready],
              ["Not set up", others],
            ] as const
          ).map(
            ([words, providers]) =>
              providers.length > 0 && (
                <section key={words} aria-label={words} className="flex flex-col gap-3">
                  <h2 className="font-semibold">{words}</h2>
                  <ul className="card divide-y divide-line">
                    {providers.map((provider) => (
                      <ProviderRow key={provider.id} provider={provider} />
                    ))}
                  </ul>
                </section>
              ),
          )}
          {ready.some(({ kind }) => kind !== "builtin") && <Other />}
        </>
      )}
    </Screen>
  );
};
