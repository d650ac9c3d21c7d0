/** What became of a reward or of a report; all of them mean that a retry is not needed. */
export type Status =
  | "counted" | "duplicate" | "late" | "accepted" | "closed" | "unknown" | "invalid";

/** An answer other than success. */
export class ServiceError extends Error {
  readonly status: number;
  /** Stable, such as "unauthorized" or "store-unavailable". */
  readonly kind: string;
  /** Whether the same request would be refused again: 4xx, but not 408, 425 and 429. */
  readonly isFinal: boolean;
}

export interface Decided<Action = string> {
  /** The sealed token: keep it beside the visit, send it back with the reward. */
  decision: string;
  action: Action;
  probability: number;
  policy: number;
}

export interface DecideOptions {
  /** What may be chosen now; all actions if left out. */
  actions?: unknown[];
  /** Rows of features, one for each action, where the bandit takes rows. */
  features?: number[][];
  /** Who is decided for, where the bandit protects people. */
  person?: string;
  /** A name of your own for the decision. */
  id?: string;
}

/** Joint trust: the server sees contexts and rewards, and shows nothing of them to others. */
export class Client {
  /** `key` with the scopes decide and learn; without one only rewards of sealed tokens are taken. */
  constructor(url: string, key?: string);
  decide(bandit: string, context?: unknown, options?: DecideOptions): Promise<Decided<any>>;
  decideMany(bandit: string, contexts: unknown[], options?: { actions?: unknown[] }): Promise<Decided<any>[]>;
  /** "sent" while the page closes: the browser delivers it, and nobody waits for the answer. */
  learn(bandit: string, decision: Decided<any> | string, reward: number): Promise<Status | "sent">;
  learnMany(bandit: string, pairs: [Decided<any> | string, number][]): Promise<Status[]>;
}

/** One place for all devices of a person: read and written whole, under one lock. */
export interface Storage {
  get(): Promise<unknown>;
  /** Durable when it resolves. */
  set(value: unknown): Promise<unknown>;
  lock<T>(work: () => Promise<T>): Promise<T>;
}

export interface DeviceOptions {
  /** Of everything that this device will ever send about this bandit. */
  epsilon: number;
  /** The most reports; each costs epsilon / contributions. */
  contributions?: number;
  /** Of all bandits whose promises are kept in the same storage; `epsilon` if left out. */
  total?: number;
  /**
   * The address of a relay: reports go there, sealed to the server's key, and the server never
   * hears who sent which. It must be run by others than the server.
   */
  relay?: string;
  /** Of the promise where the bandit's reports are shuffled; left out: they are private by themselves. */
  delta?: number;
  /** The most that a shuffled report costs by itself, even if relay and server are one; 8 if left out. */
  localEpsilon?: number;
  /** Who sends, for the relay's limit of one report in a batch; a random name if left out. */
  person?: string;
  /** IndexedDB and Web Locks if left out; in Node `fileStorage` of discreet-client/node.js. */
  storage?: Storage;
  /** Called once for a report that the server refused for good, after it was dropped. */
  onRefused?: (error: ServiceError, id: string) => void;
}

/** Plain values: keep it until the reward is known. It holds the person's features. */
export interface DeviceDecision {
  id: string;
  action: any;
  probability: number;
  row: number[];
}

/** Local trust: the record stays here; the server gets one private report for each decision. */
export class Device {
  constructor(url: string, bandit: string, options: DeviceOptions);
  /** The policy of now, checked; throws RangeError if it asks for more than was promised. */
  policy(): Promise<Record<string, unknown>>;
  /** Chooses on the device: a context by its declared names, or rows of features. */
  decide(context: Record<string, unknown> | number[][], options?: { actions?: string[] }): Promise<DeviceDecision>;
  /** Report every decision, also one that brought nothing: a missing report would tell. */
  report(decision: DeviceDecision, reward: number): Promise<Status | "waiting" | "refused" | "spent">;
  /** Send again what has had no answer; statuses by id of the report. */
  flush(): Promise<Record<string, Status | "waiting" | "refused">>;
  /** What was promised, how many reports were drawn, and those that wait, as they will be sent. */
  kept(): Promise<{ epsilon?: number; contributions?: number; sent: number; waiting: string[] }>;
}
