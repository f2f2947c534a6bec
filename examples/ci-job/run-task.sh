#!/bin/sh
# Has a Sortie carry out the Task of a JSON file, and ends as the Task ends:
#   0 completed, 1 failed, 2 refused or wrongly called, 3 nobody answers, 124 time limit, 130 cancelled.
# Needs curl and sed. Settings: see README.md.
set -u

body=${1:?"usage: run-task.sh <task.json>"}
url=${SORTIE_URL:-http://127.0.0.1:7878}
directory=${SORTIE_DIRECTORY:-$PWD}
minutes=${SORTIE_MINUTES:-60}
# Who sends the same key with the same body again gets the first answer: a job that is run again joins its Task.
key=${SORTIE_KEY:-job-$(date +%s)-$$}

# The password goes to curl by its standard input, where no list of processes shows it.
service() {
  if [ -n "${SORTIE_PASSWORD:-}" ]; then
    printf 'user = "%s:%s"\n' "${SORTIE_USERNAME:-service}" "$SORTIE_PASSWORD" |
      curl --config - --silent --show-error --header "x-service-directory: $directory" "$@"
  else
    curl --silent --show-error --header "x-service-directory: $directory" "$@"
  fi
}
# The first string of this name in a line of JSON, as it is escaped there; in the status record the record's own comes first.
first() { grep -oE "\"$1\":\"([^\"\\\\]|\\\\.)*\"" | head -n 1 | sed 's/^[^:]*:"//; s/"$//'; }

answer=$(service --request POST "$url/task" --header "content-type: application/json" \
  --header "idempotency-key: $key" --data-binary "@$body") || exit 3
task=$(printf '%s' "$answer" | first taskID)
if [ -z "$task" ]; then
  echo "sortie refused the Task: $answer" >&2
  exit 2
fi
echo "Task $task: $url/ui/task/$task"

stop() {
  service --request POST "$url/task/$task/cancel" --header "content-type: application/json" \
    --data "{\"surface\":\"ci\",\"reason\":\"$1\"}" >/dev/null
}
trap 'stop "the CI job was stopped"; exit 130' INT TERM

end=$(($(date +%s) + minutes * 60))
while :; do
  status=$(service "$url/task/$task/status") || { sleep 5; status=; }
  if [ "$(printf '%s' "$status" | first status)" = inactive ]; then break; fi
  left=$((end - $(date +%s)))
  if [ "$left" -le 0 ]; then
    stop "not done after $minutes minutes"
    echo "Task $task was not done after $minutes minutes and is cancelled." >&2
    exit 124
  fi
  # The stream ends when the Task has ended. Where a proxy holds it back, this is a pause.
  service --no-buffer --max-time "$((left < 30 ? left : 30))" "$url/task/$task/events" >/dev/null 2>&1 || sleep 2
done

state=$(printf '%s' "$status" | first lifecycleStatus)
echo "Task $task: $state"
branch=$(printf '%s' "$status" | first branch)
if [ -n "$branch" ]; then echo "Branch $branch"; fi
case $state in
  completed) exit 0 ;;
  cancelled) code=130 ;;
  *) code=1 ;;
esac
printf '%s' "$status" | first error >&2
exit $code
