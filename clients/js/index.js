// discreet-client: decisions of a server, and devices that report in private. See README.md.
import { best, chances, check, crowdOf, longest, offered, report, unit, words } from "./law.js";
import { base64, digest, seal, toHex } from "./sealing.js";

const TRIES = 5;
const AGREEMENTS = 3; // tries to find server and relay of one mind
const PAUSE = 100; // milliseconds before the second try; doubles, with jitter

/** An answer other than success: its status, a stable kind, and what to do. */
export class ServiceError extends Error {
  constructor(status, problem = {}) {
    super(`${problem.title ?? `HTTP status ${status}.`} ${problem.detail ?? ""}`.trim());
    this.name = "ServiceError";
    this.status = status;
    this.kind = (problem.type ?? "http").split(":").pop();
  }

  /** Whether the same bytes would be answered like this again. */
  get isFinal() {
    return this.status >= 400 && this.status < 500 && ![408, 425, 429].includes(this.status);
  }
}

const address = (url, bandit, call) =>
  `${url.replace(/\/+$/, "")}/v1/bandits/${encodeURIComponent(bandit)}/${call}`;

/** A request with the same bytes each time, tried again where nothing was acknowledged. */
async function send(url, options, read = (reply) => reply.json()) {
  for (let attempt = 1; ; attempt++) {
    try {
      const reply = await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer", ...options });
      if (reply.ok) return await read(reply);
      const problem = await reply.json().catch(() => undefined);
      const error = new ServiceError(reply.status, problem);
      if (attempt === TRIES || ![429, 502, 503, 504].includes(reply.status)) throw error;
    } catch (error) {
      if (attempt === TRIES || error instanceof ServiceError) throw error;
    }
    const wait = PAUSE * 2 ** (attempt - 1) * (0.5 + unit(words()()));
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Decides and learns through a server: under joint trust, which sees contexts and rewards. */
export class Client {
  #url;
  #key;

  constructor(url, key) {
    this.#url = url;
    this.#key = key;
  }

  decide(bandit, context, options = {}) {
    return this.#call(bandit, "decide", { context, ...options });
  }

  async decideMany(bandit, contexts, options = {}) {
    return (await this.#call(bandit, "decide", { contexts, ...options })).decisions;
  }

  /** The status, such as "counted" or "duplicate"; "sent" while the page closes, when nobody waits. */
  async learn(bandit, decision, reward) {
    const body = { decision: decision.decision ?? decision, reward };
    // The sealed token is the authority: a beacon carries no key, and the page need not hold one.
    const closing = globalThis.document?.visibilityState === "hidden";
    if (closing && String(body.decision).startsWith("dt1.") && navigator.sendBeacon) {
      if (navigator.sendBeacon(address(this.#url, bandit, "learn"), JSON.stringify(body))) return "sent";
    }
    return (await this.#call(bandit, "learn", body)).status;
  }

  async learnMany(bandit, pairs) {
    const rewards = pairs.map(([each, reward]) => ({ decision: each.decision ?? each, reward }));
    return (await this.#call(bandit, "learn", { rewards })).statuses;
  }

  #call(bandit, call, body) {
    return send(address(this.#url, bandit, call), {
      method: "POST",
      body: JSON.stringify(body),
      headers: this.#key ? { Authorization: `Bearer ${this.#key}` } : {},
      keepalive: call === "learn",
    });
  }
}

// -- local trust -----------------------------------------------------------------------------------

// No tag of the server's choice stays on the device, and nobody is sent elsewhere.
const FRESH = { cache: "no-store", redirect: "error" };
const KEPT = "discreet"; // the name of all that is kept, and of the lock around it

/** IndexedDB, flushed to disk before a write is done; one lock for all tabs. */
function browserStorage() {
  if (!globalThis.indexedDB || !globalThis.navigator?.locks)
    throw new Error("this device has nowhere to keep its count: pass `storage` (see README)");
  const run = async (mode, work) => {
    const database = await new Promise((done, failed) => {
      const opening = indexedDB.open(KEPT, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(KEPT);
      opening.onsuccess = () => done(opening.result);
      opening.onerror = () => failed(opening.error);
    });
    try {
      return await new Promise((done, failed) => {
        const change = database.transaction(KEPT, mode, { durability: "strict" });
        const request = work(change.objectStore(KEPT));
        change.oncomplete = () => done(request.result);
        change.onabort = () => failed(change.error);
      });
    } finally {
      database.close();
    }
  };
  return {
    get: () => run("readonly", (store) => store.get(KEPT)),
    set: (value) => run("readwrite", (store) => store.put(value, KEPT)),
    lock: (work) => navigator.locks.request(KEPT, work),
  };
}

/** Chooses by the public policy, keeps the record to itself, and reports each round once. */
export class Device {
  #url;
  #bandit;
  #promise;
  #total;
  #storage;
  #refused;
  #policy;
  #digest;
  #relay;
  #person;

  constructor(url, bandit, options = {}) {
    const { epsilon, contributions = 1, total = epsilon, storage, onRefused } = options;
    const { relay, person, delta = 0, localEpsilon = 8 } = options;
    // The person's own promise: no server sets it, and there is no default.
    if (!(typeof epsilon === "number" && epsilon > 0 && epsilon < Infinity))
      throw new RangeError("epsilon: state a positive, finite number, of all that this device will ever send");
    if (!(Number.isInteger(contributions) && contributions > 0))
      throw new RangeError("contributions: a positive integer");
    this.#url = url;
    this.#bandit = bandit;
    if (!(delta >= 0 && delta < 1) || (delta && !relay)) throw new RangeError("delta: below 1, with a relay");
    if (!(localEpsilon > 0 && localEpsilon <= 25)) throw new RangeError("localEpsilon: a positive number");
    this.#promise = { epsilon, contributions, ...(delta && { delta, localEpsilon }) };
    this.#total = total;
    this.#storage = storage ?? browserStorage();
    this.#refused = onRefused;
    this.#relay = relay;
    this.#person = person;
    if (relay && !crypto.subtle) throw new Error("a relay needs a secure context: https, or localhost");
  }

  get #name() {
    return address(this.#url, this.#bandit, "");
  }

  /** Read what is kept, change it, write it down, all under the lock. */
  #change(work) {
    return this.#storage.lock(async () => {
      const kept = (await this.#storage.get()) ?? {};
      const before = JSON.stringify(kept);
      const result = await work((kept[this.#name] ??= { sent: 0, waiting: [], reported: {} }), kept);
      if (JSON.stringify(kept) !== before) await this.#storage.set(kept);
      return result;
    });
  }

  /** The policy of now, checked; the promise is pinned at first sight. */
  async policy() {
    const text = await send(address(this.#url, this.#bandit, "policy"), FRESH, (reply) => reply.text());
    const policy = JSON.parse(text);
    check(policy, this.#promise);
    const bounds = JSON.stringify([policy.theta.length, policy.norm_bound, policy.outcome_range]);
    await this.#change((own, kept) => {
      if (own.epsilon === undefined) {
        const others = Object.values(kept).reduce((sum, each) => sum + (each.epsilon ?? 0), 0);
        if (others + this.#promise.epsilon > this.#total)
          throw new RangeError(
            `this device has promised epsilon=${others} to others: state \`total\` if it may be more`
          );
        Object.assign(own, this.#promise, { bounds });
      }
      const { epsilon, contributions, delta = 0, localEpsilon = 0 } = this.#promise;
      if (
        epsilon > own.epsilon ||
        delta > (own.delta ?? 0) ||
        localEpsilon > (own.localEpsilon ?? 0) ||
        contributions > own.contributions ||
        epsilon / contributions > own.epsilon / own.contributions
      )
        throw new RangeError(
          `this device promised epsilon=${own.epsilon} in ${own.contributions} report(s) at first`
        );
      if (bounds !== own.bounds) throw new RangeError("this device was promised other bounds");
      if (policy.batch) {
        const [honest, minimum] = crowdOf(policy.batch);
        own.counted ??= [honest, minimum]; // as they were said first, whatever the size of that batch
        if (honest > own.counted[0] || minimum < own.counted[1])
          throw new RangeError("this device was promised another crowd");
      }
    });
    if (this.#relay) this.#digest = await digest(text);
    return (this.#policy = policy);
  }

  /**
   * What relay and server say of the batch that is open, if they say the same: a server that gave
   * each person another key or policy could tell reports apart, and a relay that gave out its own
   * key could read them.
   */
  async #terms(policy) {
    for (let attempt = 1; ; attempt++) {
      const [theirs, terms] = await Promise.all(
        [this.#url, this.#relay].map((url) => send(address(url, this.#bandit, "terms"), FRESH))
      );
      const expected = { bandit: this.#bandit, policy: tagOf(policy), digest: this.#digest };
      const agree = Object.keys({ ...theirs, ...terms }).every((name) => theirs[name] === terms[name]);
      if (agree && Object.entries(expected).every(([name, value]) => terms[name] === value)) {
        if (!(terms.size <= 2 ** 20 && terms.size >= longest(policy, tagOf(policy))))
          throw new RangeError("the terms state a size that reports do not fit");
        if (policy.batch && !(terms.minimum >= policy.batch.minimum))
          throw new RangeError("the terms state a smaller crowd than the policy");
        return [policy, terms];
      }
      if (attempt === AGREEMENTS)
        throw new Error("relay and server do not agree on the policy: nothing was sent; try again later");
      await new Promise((done) => setTimeout(done, PAUSE * 2 ** attempt));
      policy = await this.policy(); // perhaps a window has just ended
    }
  }

  /** An action for a context (or for rows of features); nothing of it leaves the device. */
  async decide(context, { actions } = {}) {
    if (!this.#policy) {
      await this.policy();
      this.flush().catch(() => {}); // what an earlier page could not send
    }
    const [names, rows] = offered(this.#policy, context, actions);
    const law = chances(this.#policy, rows);
    let coin = unit(words()());
    let index = law.findIndex((chance) => (coin -= chance) < 0);
    if (index < 0) index = best(law);
    return { id: randomId(), action: names[index], probability: law[index], row: rows[index] };
  }

  /**
   * One private report of a decision's reward. Its status, "waiting" if the server is away,
   * "refused" if it will never take this report, or "spent" if this device has sent all that it
   * will. A bandit that learns no more is "closed", and gets none. Report every decision, also one
   * that brought nothing: a missing report would tell.
   */
  async report(decision, reward) {
    const most = this.#promise.contributions;
    const known = await this.#change((own) => own.reported[decision.id] ?? own.sent >= most);
    if (known === true) return "spent";
    let id = known;
    if (!id) {
      let policy = await this.policy();
      let terms;
      if (policy.learning === false) return "closed"; // nothing is drawn, so nothing is spent
      if (this.#relay) [policy, terms] = await this.#terms(policy);
      id = await this.#draw(decision, reward, policy, terms);
    }
    return (await this.flush())[id] ?? (id ? "duplicate" : "spent");
  }

  #draw(decision, reward, policy, terms) {
    if (decision.row.length !== policy.theta.length) throw new TypeError("another bandit's decision");
    return this.#change(async (own) => {
      if (own.reported[decision.id]) return own.reported[decision.id];
      if (own.sent >= this.#promise.contributions) return undefined;
      const id = randomId();
      const tag = tagOf(policy);
      const made = report(policy, decision.row, reward, words());
      let body = JSON.stringify({ id: terms ? randomId() : id, policy: tag, ...made });
      if (terms) {
        own.person ??= randomId();
        const sealed = base64(await seal(terms, body));
        body = JSON.stringify({ id, policy: tag, person: this.#person ?? own.person, sealed });
      }
      own.waiting.push({ id, body, relay: terms && this.#relay });
      own.reported[decision.id] = id;
      own.sent += 1; // counted, and kept, before it is sent
      return id;
    });
  }

  /** Send what has had no answer, the same bytes again; statuses by id of the report. */
  async flush() {
    const statuses = {};
    for (const { id, body, relay } of await this.#change((own) => [...own.waiting])) {
      let refusal;
      const to = address(relay ?? this.#url, this.#bandit, relay ? "sealed" : "reports");
      try {
        const reply = await send(to, {
          ...FRESH,
          method: "POST",
          body,
          headers: { "Content-Type": "text/plain" },
          keepalive: body.length < 60000,
        });
        statuses[id] = String(reply.status);
      } catch (error) {
        statuses[id] = error.isFinal ? "refused" : "waiting";
        if (!error.isFinal) continue;
        refusal = error;
      }
      await this.#change((own) => {
        own.waiting = own.waiting.filter((each) => each.id !== id);
      });
      if (refusal) this.#refused?.(refusal, id);
    }
    return statuses;
  }

  /** What this device has promised, and how many reports it has sent. */
  kept() {
    return this.#change(({ epsilon, contributions, sent, waiting }) => ({
      epsilon, contributions, sent, waiting: waiting.map(({ body }) => body),
    }));
  }
}

const randomId = () => toHex(crypto.getRandomValues(new Uint8Array(16)));
const tagOf = ({ epoch, version }) => `${epoch}-${version}`;
