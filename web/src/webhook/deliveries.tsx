import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { RotateCw } from "lucide-react";
import { ask, client, wordsOf } from "../api.ts";
import { StateMark } from "../component/text/state.tsx";
import { Ago } from "../component/text/time.tsx";
import { say } from "../component/layout/toast.tsx";
import { count, duration, type State } from "../format.ts";

/** The deliveries: successful, pending and failed. */

type Delivery = NonNullable<Awaited<ReturnType<typeof client.webhook.deliveries>>["data"]>["deliveries"][number];

const states: Record<Delivery["state"], { state: State; words: string }> = {
  pending: { state: "queue", words: "Pending" },
  delivered: { state: "done", words: "Delivered" },
  dead: { state: "fail", words: "Failed" },
};

const shown = 50;

export const deliveriesOf = (state: "dead" | undefined) => ({
  queryKey: ["deliveries", state ?? "all"],
  queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Delivery[]> =>
    (
      await ask(
        client.webhook.deliveries({ query: { limit: shown, ...(state === undefined ? {} : { state }) }, signal }),
      )
    ).deliveries,
  refetchInterval: 5_000,
});

/** The outcome of the last attempt, on one line. */
export const lastWords = ({ last, attempts }: Delivery): string =>
  last === null
    ? "not tried yet"
    : `${last.status === null ? (last.reason ?? "no answer") : `answered ${last.status}`} in ${duration(last.durationMs)}${attempts > 1 ? `, ${attempts} attempts` : ""}`;

const Row = ({ delivery, whose, onAgain }: { delivery: Delivery; whose: string; onAgain?: () => void }) => (
  <li className="flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2">
    <StateMark {...states[delivery.state]} />
    <code className="font-mono text-xs">{delivery.type}</code>
    <span className="min-w-0 text-sm text-soft">to {whose}</span>
    {delivery.taskID !== null && (
      <Link to="/ui/task/$taskID" params={{ taskID: delivery.taskID }} className="link text-sm">
        its Task
      </Link>
    )}
    <span className="ml-auto text-sm text-faint">
      <Ago at={delivery.updatedAt} />
    </span>
    {onAgain !== undefined && (
      <button type="button" className="button" onClick={onAgain}>
        <RotateCw size={14} aria-hidden="true" />
        Tell again
      </button>
    )}
    <span className="tabular line-clamp-2 basis-full text-sm text-soft" dir="auto">
      {lastWords(delivery)}
    </span>
  </li>
);

export const Deliveries = ({ names }: { names: ReadonlyMap<string, string> }) => {
  const queries = useQueryClient();
  const { data: all = [] } = useQuery(deliveriesOf(undefined));
  const { data: dead = [] } = useQuery(deliveriesOf("dead"));
  const told = {
    onSuccess: ({ redelivered }: { redelivered: number }) => {
      say(`${count(redelivered, "message")} being resent`);
      void queries.invalidateQueries({ queryKey: ["deliveries"] });
    },
    onError: (error: unknown) => say(wordsOf(error)),
  };
  const again = useMutation({
    mutationFn: (deliveryID: string) => ask(client.webhook.redeliver({ path: { deliveryID } })),
    ...told,
  });
  const everything = useMutation({
    mutationFn: (since: string) => ask(client.webhook.redeliverDead({ body: { since } })),
    ...told,
  });
  const whose = ({ webhookID }: Delivery) =>
    webhookID === "callback" ? "the Task's callback URL" : (names.get(webhookID) ?? "a deleted webhook");
  const oldest = dead.at(-1);
  return (
    <>
      {oldest !== undefined && (
        <section aria-label="Failed deliveries" className="flex flex-col gap-3">
          <div className="flex items-center justify-between gap-3">
            <h2 className="font-semibold">Failed deliveries</h2>
            <button
              type="button"
              className="button"
              disabled={everything.isPending}
              onClick={() => everything.mutate(oldest.createdAt)}
            >
              <RotateCw size={14} aria-hidden="true" />
              Resend all
            </button>
          </div>
          <ul className="card divide-y divide-line border-fail/35">
            {dead.map((delivery) => (
              <Row
                key={delivery.deliveryID}
                delivery={delivery}
                whose={whose(delivery)}
                onAgain={() => again.mutate(delivery.deliveryID)}
              />
            ))}
          </ul>
        </section>
      )}
      {all.length > 0 && (
        <section aria-label="Latest" className="flex flex-col gap-3">
          <h2 className="font-semibold">Latest</h2>
          <ul className="card divide-y divide-line">
            {all.map((delivery) => (
              <Row key={delivery.deliveryID} delivery={delivery} whose={whose(delivery)} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
};
