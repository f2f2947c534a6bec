import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Webhook as Icon } from "lucide-react";
import { useState } from "react";
import { ask, client, wordsOf } from "../api.ts";
import { Dialog } from "../component/layout/dialog.tsx";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { Inline } from "../component/text/inline.tsx";
import { Screen } from "../component/layout/screen.tsx";
import { StateMark } from "../component/text/state.tsx";
import { Ago } from "../component/text/time.tsx";
import { say } from "../component/layout/toast.tsx";
import { useProject } from "../project.ts";
import { duration, type State } from "../format.ts";
import { nameOf } from "../place.ts";
import { Create } from "./create.tsx";
import { Deliveries, deliveriesOf, lastWords } from "./deliveries.tsx";

/** The webhooks: who is notified of Tasks and Missions, whether it works, and which deliveries failed. */

type Webhook = NonNullable<Awaited<ReturnType<typeof client.webhook.list>>["data"]>[number];

const states: Record<Webhook["state"], { state: State; words: string }> = {
  enabled: { state: "done", words: "Enabled" },
  paused: { state: "stop", words: "Paused" },
  disabled: { state: "fail", words: "Disabled" },
};

const Row = ({ webhook, last }: { webhook: Webhook; last: string | undefined }) => {
  const { webhookID, state } = webhook;
  const path = { webhookID };
  const queries = useQueryClient();
  const [removing, setRemoving] = useState(false);
  const refresh = () => {
    void queries.invalidateQueries({ queryKey: ["webhooks"] });
    void queries.invalidateQueries({ queryKey: ["deliveries"] });
  };
  const onError = (error: unknown) => say(wordsOf(error));
  const test = useMutation({ mutationFn: () => ask(client.webhook.test({ path })), onSettled: refresh, onError });
  const update = useMutation({
    mutationFn: (to: "enabled" | "paused") => ask(client.webhook.update({ path, body: { state: to } })),
    onSuccess: refresh,
    onError,
  });
  const remove = useMutation({
    mutationFn: () => ask(client.webhook.delete({ path })),
    onSuccess: () => {
      setRemoving(false);
      refresh();
    },
    onError,
  });
  return (
    <li className="flex flex-col gap-2 px-4 py-4 sm:px-5">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <p className="flex flex-wrap items-center gap-2">
            <StateMark {...states[state]} />
            <code className="min-w-0 font-mono text-sm font-medium">{webhook.url}</code>
          </p>
          <p className="mt-1 text-sm text-soft">
            {webhook.description !== "" && <span dir="auto">{webhook.description} · </span>}
            {webhook.events.length === 9 ? "all events" : webhook.events.join(", ")}
            {webhook.directory !== null && ` · only of ${nameOf(webhook.directory)}`}
          </p>
          {webhook.reason !== null && <p className="text-sm text-fail">{webhook.reason}</p>}
          {webhook.failingSince !== null && (
            <p className="text-sm text-need">
              No attempt has succeeded since <Ago at={webhook.failingSince} />
            </p>
          )}
          {last !== undefined && <p className="tabular text-sm text-faint">Last: {last}</p>}
        </div>
        <div className="flex gap-2">
          <button type="button" className="button" disabled={test.isPending} onClick={() => test.mutate()}>
            {test.isPending ? "Sending" : "Test"}
          </button>
          <button
            type="button"
            className="button"
            disabled={update.isPending}
            onClick={() => update.mutate(state === "enabled" ? "paused" : "enabled")}
          >
            {state === "enabled" ? "Pause" : "Enable"}
          </button>
          <button type="button" className="button button-danger" onClick={() => setRemoving(true)}>
            Delete
          </button>
        </div>
      </div>
      <p role="status" className={`text-sm empty:hidden ${test.data?.delivered === true ? "text-done" : "text-fail"}`}>
        {test.data !== undefined &&
          (test.data.delivered
            ? `The test message was accepted: ${test.data.status} in ${duration(test.data.durationMs)}`
            : `The test message was not accepted: ${test.data.reason ?? test.data.status}`)}
      </p>
      <Dialog open={removing} onClose={() => setRemoving(false)} title="Delete this webhook?">
        <p className="text-soft">Its pending deliveries are deleted too.</p>
        <div className="mt-5 flex justify-end gap-2">
          <button type="button" className="button" onClick={() => setRemoving(false)}>
            Keep it
          </button>
          <button
            type="button"
            className="button button-danger"
            disabled={remove.isPending}
            onClick={() => remove.mutate()}
          >
            Delete
          </button>
        </div>
      </Dialog>
    </li>
  );
};

export const Webhooks = () => {
  const project = useProject();
  const { data, error, refetch } = useQuery({
    queryKey: ["webhooks"],
    queryFn: ({ signal }) => ask(client.webhook.list({ signal })),
    refetchInterval: 10_000,
  });
  const { data: deliveries = [] } = useQuery(deliveriesOf(undefined));
  const lastOf = (webhookID: string): string | undefined => {
    const found = deliveries.find((delivery) => delivery.webhookID === webhookID && delivery.last !== null);
    return found === undefined ? undefined : `${found.type}, ${lastWords(found)}`;
  };
  return (
    <Screen
      title="Webhooks"
      about="Other services that are notified about Tasks and Missions. Messages are signed, and resent until they arrive."
    >
      <Create project={project} />
      {data === undefined &&
        (error === null ? <Waiting lines={4} /> : <Failure words={wordsOf(error)} onRetry={() => void refetch()} />)}
      {data?.length === 0 && (
        <Empty icon={Icon} title="No webhooks yet">
          <p>
            <Inline text="Add an address above. To follow a single Task, set its `callbackURL` instead." />
          </p>
        </Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <ul aria-label="Webhooks" className="card divide-y divide-line">
          {data.map((webhook) => (
            <Row key={webhook.webhookID} webhook={webhook} last={lastOf(webhook.webhookID)} />
          ))}
        </ul>
      )}
      <Deliveries
        names={
          new Map(
            (data ?? []).map(({ webhookID, description, url }) => [webhookID, description === "" ? url : description]),
          )
        }
      />
    </Screen>
  );
};
