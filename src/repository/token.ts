import { identityOf } from "./address.ts";
import type { Credential, ShownRemote } from "./credential.ts";
import { createAppTokens } from "./forge/app.ts";
import { forgeOf } from "./forge/place.ts";
import { ForgeRefused } from "./repository.ts";

/** The tokens that remotes and forges get: the operator's own, and those that an app gets for an hour. */
export type Tokens = {
  /** The token of a remote. Rejects with `RepositoryAway` or `ForgeRefused` if an app gets none. */
  of(remote: ShownRemote, signal: AbortSignal): Promise<string>;
  /** Call if the token was refused. Returns whether `of` may bring another one. */
  drop(remote: ShownRemote, token: string): boolean;
};

export const createTokens = (options: {
  /** Gets all tokens in use before one is used, so that no text that the service writes shows them. */
  learn: (tokens: readonly string[]) => void;
  resolve: ((host: string) => Promise<readonly string[]>) | undefined;
}): Tokens => {
  const apps = createAppTokens({ resolve: options.resolve });
  /** The operator's own tokens, by their credential. */
  const own = new Map<Credential, string>();
  return {
    async of({ address, credential, vouched }, signal) {
      let token: string;
      if (credential.kind === "token") {
        token = credential.read();
        own.set(credential, token);
      } else {
        const forge = forgeOf(address, credential);
        if ("problem" in forge) throw new ForgeRefused(0, forge.problem);
        const named = vouched || credential.api !== undefined;
        token = await apps.of(identityOf(address), { app: credential, ...forge.place, vouched: named }, signal);
      }
      options.learn([...own.values(), ...apps.all()]);
      return token;
    },
    drop: ({ address, credential }, token) => credential.kind === "app" && apps.drop(identityOf(address), token),
  };
};
