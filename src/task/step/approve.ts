import { createHash } from "node:crypto";
import { askApproval, mayLand, planKey } from "../../domain/session/approval.ts";
import { branchName } from "../../domain/task/landing.ts";
import { newID } from "../../id.ts";
import { decode } from "../../squad/package/package.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/** Asks for a person's approval of what is about to happen. */

/**
 * Whether the landing has to wait for an approval. If so, asks for it, or records that what was asked or approved is
 * the same change on another base. A Task that needs approval lands nothing without it.
 */
export const awaitLanding = async (run: Run, workspace: Workspace): Promise<boolean> => {
  const state = run.state();
  if (mayLand(state)) return false;
  const { tree, approved, version, workspace: prepared } = state;
  if (tree === null || prepared?.baseCommit == null) throw new Error("Expected a committed tree to be approved.");
  const ref = prepared.targetRef ?? `refs/heads/${prepared.branch}`;
  const change = await run.workspaces.changeHash(workspace, prepared.baseCommit, tree.commit);
  const subject = createHash("sha256").update(`${ref}\n${change}`).digest("hex");
  const { commit, tree: treeID } = tree;
  const before = approved.landing;
  const event =
    before?.subject === subject
      ? [
          {
            type: "approval.moved" as const,
            data: { sessionID: state.sessions[0]?.sessionID ?? "", askID: before.askID, commit, tree: treeID },
          },
        ]
      : askApproval(state, {
          askID: newID("ask"),
          of: "landing",
          would: { subject, commit, tree: treeID, branch: branchName(ref) },
          prompt: `Land this on ${branchName(ref)}? ${counted(tree)}`,
        });
  await run.record(event, { decidedAt: version });
  return true;
};

const counted = ({ files, insertions, deletions }: { files: number; insertions: number; deletions: number }): string =>
  `${files} ${files === 1 ? "file" : "files"} changed, +${insertions} -${deletions}.`;

/** Asks whether the plan may be carried out as the Task's slices state it. */
export const requestPlanApproval = async (run: Run): Promise<void> => {
  const state = run.state();
  const subject = createHash("sha256").update(planKey(state)).digest("hex");
  const parts = state.slices.filter(({ settlement }) => settlement.state !== "dropped").length;
  const ask = askApproval(state, {
    askID: newID("ask"),
    of: "plan",
    would: { subject, commit: null, tree: null, branch: null },
    prompt: `Carry out this plan? ${parts === 1 ? "It has one part" : `It has ${parts} parts`}.`,
  });
  await run.record(ask, { decidedAt: state.version });
};

/**
 * Asks whether the staged package may be installed. Its files are kept as one artifact, so that they can be read first.
 */
export const askSquad = async (run: Run): Promise<void> => {
  const state = run.state();
  const { staged } = state;
  if (staged === null) throw new Error("Expected a staged squad to be approved.");
  const { id, version, digest } = staged.squad;
  const bytes = await run.store.blobs.get(digest);
  const files = bytes === undefined ? undefined : decode(bytes);
  const artifactID = newID("art");
  const text = (files ?? [])
    .map(({ path, bytes: words }) => `## ${path}\n\n${run.store.redact(words.toString("utf8"))}`)
    .join("\n\n");
  const kept = await run.store.blobs.put(Buffer.from(`# Squad ${id} ${version}\n\nDigest ${digest}\n\n${text}\n`));
  const ask = askApproval(state, {
    askID: newID("ask"),
    of: "squad",
    would: { subject: digest, commit: null, tree: null, branch: null, artifactID },
    prompt: `Install the squad ${id} ${version}? Its package has ${staged.files.length} files.`,
  });
  await run.record(
    [
      {
        type: "artifact.recorded",
        data: {
          artifactID,
          filename: `squad-${id}.md`,
          title: `The package of the squad ${id}, as it would be installed`,
          mime: "text/markdown",
          ...kept,
          by: { kind: "call", sessionID: staged.sessionID, callID: staged.callID },
        },
      },
      ...ask,
    ],
    { decidedAt: state.version },
  );
};
