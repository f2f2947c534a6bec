import { useQuery } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleDashed } from "lucide-react";
import { models, wordsOf } from "../api.ts";
import { Failure, Waiting } from "../parts/empty.tsx";
import { Fact, Screen } from "../parts/screen.tsx";
import { clock, count } from "../words.ts";

/** Which model answers and why, and what else is there. A key is named by where it came from, never shown. */
export const Models = () => {
  const { data, error, refetch } = useQuery({ ...models, refetchInterval: 15_000 });
  return (
    <Screen
      title="Models"
      about="Which model answers, why, and where the keys come from. A Task keeps the model that it began with."
    >
      {data === undefined &&
        (error === null ? <Waiting lines={6} /> : <Failure words={wordsOf(error)} onRetry={() => void refetch()} />)}
      {data !== undefined && (
        <>
          <section aria-label="Active model" className="card flex flex-col gap-4 p-5">
            <dl className="flex flex-wrap gap-x-10 gap-y-4">
              <Fact label="Active">
                <span className="text-lg font-semibold">
                  {data.active.ref.startsWith("builtin/") ? "Built-in rules" : data.active.ref}
                </span>
              </Fact>
              <Fact label="Why">
                <span className="text-soft">{data.active.source}</span>
              </Fact>
              {data.failover.length > 0 && <Fact label="When it cannot answer">{data.failover.join(", then ")}</Fact>}
            </dl>
            {data.active.ref.startsWith("builtin/") && (
              <div className="flex flex-col gap-2 rounded-xl bg-accent-tint p-4">
                <p>
                  No language model is set up. The rules carry out exactly what a request spells out and refuse the
                  rest. For requests in your own words, start the service with a key, or look for a model server on this
                  machine:
                </p>
                <pre className="code overflow-x-auto">ANTHROPIC_API_KEY=… npm start{"\n"}sortie model detect</pre>
              </div>
            )}
          </section>
          <section aria-label="Providers" className="flex flex-col gap-3">
            <h2 className="font-semibold">Providers</h2>
            <ul className="card divide-y divide-line">
              {data.providers.map((provider) => {
                const open = provider.breaker.state !== "closed";
                return (
                  <li key={provider.id} className="flex flex-wrap items-start gap-x-4 gap-y-2 px-5 py-4">
                    <span className="mt-0.5">
                      {open ? (
                        <CircleAlert size={18} aria-hidden="true" className="text-need" />
                      ) : provider.configured ? (
                        <CircleCheck size={18} aria-hidden="true" className="text-done" />
                      ) : (
                        <CircleDashed size={18} aria-hidden="true" className="text-faint" />
                      )}
                    </span>
                    <div className="min-w-0 flex-1 basis-56">
                      <p className="font-medium">
                        {provider.name} <span className="text-sm font-normal text-faint">{provider.id}</span>
                      </p>
                      <p className="text-sm text-soft">
                        {provider.configured
                          ? provider.keySource === null
                            ? "Ready, needs no key"
                            : `Ready, key from ${provider.keySource}`
                          : "No key"}
                        {provider.baseURL !== null && ` · ${provider.baseURL}`}
                      </p>
                      {open && (
                        <p className="text-sm text-need">
                          Left alone after {provider.breaker.failures} failures in a row
                          {provider.breaker.retryAt !== null && `, tried again at ${clock(provider.breaker.retryAt)}`}
                        </p>
                      )}
                    </div>
                    {provider.models.length > 0 && (
                      <details className="min-w-0 basis-full sm:basis-64">
                        <summary className="text-sm text-soft">
                          {count(provider.models.length, "name")} known here; others may work
                        </summary>
                        <ul className="mt-1 flex flex-col gap-0.5 font-mono text-xs text-soft">
                          {provider.models.map((name) => (
                            <li key={name}>{name}</li>
                          ))}
                        </ul>
                      </details>
                    )}
                  </li>
                );
              })}
            </ul>
            <p className="text-sm text-soft">
              <code className="font-mono text-xs">sortie model test</code> makes one real call and says how fast it
              answers and whether it can use tools; <code className="font-mono text-xs">sortie model use</code> chooses.
            </p>
          </section>
        </>
      )}
    </Screen>
  );
};
