// How the page asks its server: with the token, which came in the address and leaves it at once.

import type { Message, Overview } from "./types";

const KEY = "tabane-token";

/** An answer that is an error, as a sentence. */
export class Refused extends Error {
  constructor(
    readonly code: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

/** Takes the token from the address, where the browser keeps it to itself, and removes it there. */
export function takeToken(): void {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    keepToken(token);
    history.replaceState(null, "", location.pathname);
  }
}

/** Keeps the token for as long as the tab is open. */
export function keepToken(token: string): void {
  sessionStorage.setItem(KEY, token);
}

function ask(path: string, more: RequestInit = {}): Promise<Response> {
  const headers = new Headers(more.headers);
  const token = sessionStorage.getItem(KEY);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  return fetch(path, { ...more, headers, cache: "no-store", redirect: "error" });
}

async function answered(response: Response): Promise<Response> {
  if (response.ok) return response;
  const answer = (await response.json().catch(() => ({}))) as { error?: string };
  throw new Refused(response.status, answer.error ?? `the server answers ${response.status}`);
}

/** Which bundles are up, and what the page may do. */
export async function overview(): Promise<Overview> {
  return (await answered(await ask("/api/bundles"))).json() as Promise<Overview>;
}

function of(bundle: string): string {
  return `/api/bundles/${encodeURIComponent(bundle)}`;
}

/** Drains a link, or resumes it. */
export async function setDrained(bundle: string, link: string, drained: boolean): Promise<void> {
  const path = `${of(bundle)}/links/${encodeURIComponent(link)}/${drained ? "drain" : "resume"}`;
  await answered(await ask(path, { method: "POST" }));
}

/** Switches the policy. */
export async function setPolicy(bundle: string, policy: string): Promise<void> {
  const body = JSON.stringify({ policy });
  const headers = { "Content-Type": "application/json" };
  await answered(await ask(`${of(bundle)}/policy`, { method: "POST", body, headers }));
}

/** Hands on what the server tells, until the connection ends. `EventSource` cannot carry a token. */
export async function follow(opened: () => void, take: (message: Message) => void): Promise<void> {
  const response = await answered(await ask("/api/stream"));
  if (!response.body) throw new Error("the server sends nothing");
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length > 0) take(JSON.parse(data.map((line) => line.slice(5)).join("\n")) as Message);
    }
  }
}
