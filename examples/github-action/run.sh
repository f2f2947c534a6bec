#!/usr/bin/env bash
# The one step of the action: makes the Task, waits for its end, writes outputs and summary. Needs curl and jq.
set -euo pipefail

service() {
  local auth=""
  if [[ -n ${SORTIE_PASSWORD:-} ]]; then auth="user = \"${SORTIE_USERNAME:-service}:$SORTIE_PASSWORD\""; fi
  # By standard input: no list of processes shows the password.
  # A repository by its address takes the place of a directory.
  local place=()
  if [[ -z ${SORTIE_REPOSITORY:-} ]]; then place=(--header "x-service-directory: $SORTIE_DIRECTORY"); fi
  curl --config - --silent --show-error ${place[@]+"${place[@]}"} "$@" <<<"$auth"
}

landing=${SORTIE_LANDING:-}
if [[ -z $landing && -z ${SORTIE_REPOSITORY:-} ]]; then landing=branch; fi

body=$(jq --null-input \
  --arg request "$SORTIE_REQUEST" --arg checks "${SORTIE_CHECKS:-}" --arg landing "$landing" \
  --arg url "${SORTIE_REPOSITORY:-}" --arg ref "${SORTIE_REF:-}" \
  --arg squad "${SORTIE_SQUAD:-}" --arg repository "${GITHUB_REPOSITORY:-}" --arg run "${GITHUB_RUN_ID:-}" \
  --arg sha "${GITHUB_SHA:-}" --arg actor "${GITHUB_ACTOR:-}" '
  { request: $request, productPillar: "code", source: "github-action",
    checks: ($checks | split("\n") | map(select(test("\\S")))),
    metadata: { repository: $repository, run: $run, sha: $sha, actor: $actor } }
  + if $landing == "" then {} else { landing: $landing } end
  + if $url == "" then {} else { repository: ({ url: $url } + if $ref == "" then {} else { ref: $ref } end) } end
  + if $squad == "" then {} else { promptProfile: $squad } end')

# A step that GitHub runs again in the same attempt joins its Task.
key="${GITHUB_REPOSITORY:-local}:${GITHUB_RUN_ID:-$$}:${GITHUB_RUN_ATTEMPT:-1}:${GITHUB_JOB:-job}:${GITHUB_ACTION:-step}"
answer=$(service --request POST "$SORTIE_URL/task" --header "content-type: application/json" \
  --header "idempotency-key: ${key:0:255}" --data-binary "$body")
task=$(jq --raw-output '.taskID // empty' <<<"$answer")
if [[ -z $task ]]; then
  echo "::error title=Sortie refused the Task::$(jq --raw-output '.message // .' <<<"$answer" | tr '\n' ' ')"
  exit 2
fi
echo "Task $task: $SORTIE_URL/ui/task/$task"
echo "task-id=$task" >>"$GITHUB_OUTPUT"

cancel() {
  service --request POST "$SORTIE_URL/task/$task/cancel" --header "content-type: application/json" \
    --data "$(jq --null-input --arg reason "$1" '{ surface: "github-action", reason: $reason }')" >/dev/null || true
}
trap 'cancel "the workflow was cancelled"; exit 130' INT TERM

end=$((SECONDS + ${SORTIE_MINUTES:-60} * 60))
until status=$(service "$SORTIE_URL/task/$task/status") && [[ $(jq --raw-output .status <<<"$status") == inactive ]]; do
  if ((SECONDS >= end)); then
    cancel "not done after $SORTIE_MINUTES minutes"
    echo "::error title=Sortie::Task $task was not done after $SORTIE_MINUTES minutes and is cancelled."
    exit 124
  fi
  # The stream ends when the Task has ended. Where a proxy holds it back, this is a pause.
  service --no-buffer --max-time 30 "$SORTIE_URL/task/$task/events" >/dev/null 2>&1 || sleep 2
done

jq --raw-output '"state=\(.lifecycleStatus)", "commit=\(.git.landedCommit // "")", "branch=\((if .repository == null then .git.branch else .landingBranch end) // "")",
  "pull-request=\(.pullRequest.url // "")"' \
  <<<"$status" | tee -a "$GITHUB_OUTPUT"
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
  jq --raw-output '"### Sortie: \(.lifecycleStatus)", "", "| Check | State |", "|---|---|",
    (.checks[] | "| \(.name | gsub("[|\n]"; " ")) | \(.state) |")' <<<"$status" >>"$GITHUB_STEP_SUMMARY"
fi
if [[ $(jq --raw-output .lifecycleStatus <<<"$status") != completed ]]; then
  echo "::error title=Sortie::$(jq --raw-output '.error // "The Task did not complete."' <<<"$status" | tr '\n' ' ')"
  exit 1
fi
