import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, KeyRound } from "lucide-react";
import { type FormEvent, useState } from "react";
import type { ModelKey } from "../../../src/protocol/service.ts";
import { ask, client, wordsOf } from "../api.ts";
import { Labelled } from "../component/form/field.tsx";
import { TestButton, TestResult, useTrial } from "./trial.tsx";

/** Gives the service the key of a provider. The form sends the key once, and no answer ever contains it. */

const providers: Record<ModelKey["provider"], string> = {
  anthropic: "Anthropic",
  openai: "OpenAI",
  google: "Google",
  openrouter: "OpenRouter",
};

export const Connect = () => {
  const queries = useQueryClient();
  const [provider, setProvider] = useState<ModelKey["provider"]>("anthropic");
  const [key, setKey] = useState("");
  const trial = useTrial();
  const connect = useMutation({
    mutationFn: () => ask(client.service.setKey({ body: { provider, key: key.trim() } })),
    onSuccess: () => {
      setKey("");
      trial.reset();
      for (const name of ["models", "health"]) void queries.invalidateQueries({ queryKey: [name] });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (key.trim() !== "" && !connect.isPending) connect.mutate();
  };
  return (
    <div className="flex flex-col gap-3">
      <form className="flex flex-wrap items-end gap-3" onSubmit={submit} aria-label="Connect a model">
        <div className="w-40">
          <Labelled label="Provider">
            {(id) => (
              <select
                id={id}
                className="field"
                value={provider}
                onChange={({ target }) => setProvider(target.value as ModelKey["provider"])}
              >
                {Object.entries(providers).map(([name, words]) => (
                  <option key={name} value={name}>
                    {words}
                  </option>
                ))}
              </select>
            )}
          </Labelled>
        </div>
        <div className="min-w-56 flex-1">
          <Labelled label="API key">
            {(id) => (
              <input
                id={id}
                type="password"
                autoComplete="off"
                spellCheck={false}
                className="field font-mono"
                value={key}
                onChange={({ target }) => setKey(target.value)}
              />
            )}
          </Labelled>
        </div>
        <button type="submit" className="button button-primary" disabled={connect.isPending || key.trim() === ""}>
          <KeyRound size={15} aria-hidden="true" />
          {connect.isPending ? "Connecting" : "Connect"}
        </button>
      </form>
      {connect.error !== null && (
        <p role="alert" className="text-sm text-fail">
          {wordsOf(connect.error)}
        </p>
      )}
      {connect.data !== undefined && (
        <div role="status" className="flex flex-wrap items-center gap-3 text-sm">
          <span className="inline-flex items-center gap-2 text-done">
            <CircleCheck size={16} aria-hidden="true" />
            {connect.data.active.ref.startsWith(`${connect.data.provider}/`)
              ? `${connect.data.active.ref} is now in use.`
              : `The key is saved. ${connect.data.active.ref} is still in use, set by ${connect.data.active.source}.`}
          </span>
          {connect.data.active.ref.startsWith(`${connect.data.provider}/`) && (
            <TestButton trial={trial} model={connect.data.active.ref} />
          )}
        </div>
      )}
      <TestResult trial={trial} />
      <p className="text-sm text-faint">
        The key is saved in the service's configuration, readable only by its owner. It is sent only to that provider,
        and never shown again.
      </p>
    </div>
  );
};
