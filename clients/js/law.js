// The law of reports: the same bits as src/discreet/privacy/portable.py and local/questions.py.
// Only + - * / and the square root, in the order of the Python code; no Math.log, no Math.round.

export const COINS = 2 ** 52;
const CELLS = 2 ** 20;
const RESPONSE = CELLS + 1;
const LARGEST = 1e8;

/** Words of 52 random bits. */
export function words() {
  const pool = new Uint32Array(256);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      crypto.getRandomValues(pool);
      at = 0;
    }
    at += 2;
    return pool[at - 1] * 2 ** 20 + (pool[at - 2] >>> 12);
  };
}

export const unit = (word) => (word + 0.5) / COINS;

function dot(a, b) {
  let total = a[0] * b[0];
  for (let i = 1; i < a.length; i++) total += a[i] * b[i];
  return total;
}

const SERIES = [
  1.479819860511658591e-1, 1.531383769920937332e-1, 1.818357216161805012e-1, 2.222219843214978396e-1,
  2.857142874366239149e-1, 3.999999999940941908e-1, 6.666666666666735130e-1,
];
const view = new DataView(new ArrayBuffer(8));

/** The natural logarithm of a positive number. */
export function log(x) {
  let k = -1022;
  if (x < 2 ** -1022) {
    x *= 2 ** 54;
    k -= 54;
  }
  view.setFloat64(0, x);
  const top = view.getUint32(0);
  k += top >>> 20;
  view.setUint32(0, (top & 0xfffff) | 0x3fe00000);
  let f = view.getFloat64(0);
  if (f < Math.sqrt(0.5)) {
    f += f;
    k -= 1;
  }
  f -= 1;
  const s = f / (2 + f);
  const z = s * s;
  const series = SERIES.reduce((sum, term) => term + z * sum);
  const half = 0.5 * f * f;
  return (
    k * 6.9314718036912381649e-1 -
    (half - (s * (half + z * series) + k * 1.90821492927058770002e-10) - f)
  );
}

/** To the nearest integer, halves to even; for sizes up to 2^52. */
const rint = (x) => (x < 0 ? x - COINS + COINS : x + COINS - COINS);
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const largestOf = (row) => row.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

function normals(next, dim) {
  const made = new Array(2 * Math.ceil(dim / 2));
  let waiting = Array.from({ length: made.length / 2 }, (_, i) => i);
  while (waiting.length)
    waiting = waiting.filter((i) => {
      const x = 2 * unit(next()) - 1;
      const y = 2 * unit(next()) - 1;
      const square = x * x + y * y;
      if (!(square < 1 && square > 0)) return true;
      const size = Math.sqrt((-2 * log(square)) / square);
      made[2 * i] = x * size;
      made[2 * i + 1] = y * size;
      return false;
    });
  return made.slice(0, dim);
}

/** One coordinate of a uniform direction, on the cap or on the rest, and the length across it. */
function cosine(next, dim, cap, inside) {
  const a = (dim - 3) / 2;
  const low = inside ? cap : 0;
  const spread = a > 0 ? Math.sqrt(low * low + 4 / (2 * a + 1)) : 0;
  const s = Math.min((low + spread) / 2, (low + 1) / 2);
  const atS = (1 - s) * (1 + s);
  const rate = (2 * a * s) / atS;
  for (;;) {
    const [first, second, third] = [next(), next(), next()];
    let t, across, accepted;
    if (dim === 2) {
      const x = 2 * unit(first) - 1;
      const y = 2 * unit(second) - 1;
      const square = x * x + y * y;
      accepted = square < 1 && square > 0;
      t = x / Math.sqrt(square);
      across = Math.abs(y) / Math.sqrt(square);
    } else {
      t = a ? low - log(unit(first)) / rate : low + (1 - low) * unit(first);
      const rest = (1 - t) * (1 + t);
      accepted = t < 1 && (!a || log(unit(second)) <= a * log(rest / atS) + rate * (t - s));
      across = Math.sqrt(rest);
      if (!inside && third < COINS / 2) t = -t;
    }
    if (accepted && t >= cap === inside) return [t, across];
  }
}

/** BallChannel: a vector no longer than 1 becomes a point of a sphere, in steps of 2^-20. */
function ball(next, row, { cap, likely }) {
  const [sign, coin] = [next(), next()];
  const largest = largestOf(row);
  let direction = row.map((x) => x / (largest || 1));
  const norm = Math.sqrt(dot(direction, direction));
  const size = (sign < (1 + largest * norm) * (COINS / 2) ? 1 : -1) / (largest ? norm : 1);
  direction = direction.map((x) => x * size);
  let units = normals(next, row.length);
  if (row.length === 1) {
    const end = largest ? (coin < likely ? 1 : -1) * direction[0] : units[0] < 0 ? -1 : 1;
    return [rint(end * CELLS)];
  }
  let [along, across] = cosine(next, row.length, cap, coin < likely);
  if (!largest) [along, across] = [0, 1];
  for (let turn = 0; turn < 2; turn++) {
    const part = dot(units, direction);
    units = units.map((x, i) => x - part * direction[i]);
  }
  const scale = across / (Math.sqrt(dot(units, units)) || 1);
  return units.map((x, i) => rint((x * scale + along * direction[i]) * CELLS));
}

/** IntervalChannel on [0, 1]: a cell of the piecewise mechanism, or +-(2^20 + 1). */
function number(next, value, { likely, mixture, inside, plateau }) {
  const x = clip((value - 0.5) / 0.5, -1, 1);
  const bound = COINS / (2 * likely - COINS);
  const up = clip(rint((COINS / 2) * (1 + x / bound)), COINS - likely, likely);
  const respond = (coin) => (coin < up ? RESPONSE : -RESPONSE);
  if (!mixture) return [respond(next())];
  const [which, first, second, third] = [next(), next(), next(), next()];
  if (which >= mixture) return [respond(first)];
  const last = CELLS + 1 - plateau;
  const wanted = x * (CELLS - (plateau - 1) / 2) - (plateau - 1) / 2;
  const floor = clip(Math.floor(wanted), -CELLS, last);
  const start = Math.min(floor + (first < clip(wanted - floor, 0, 1) * COINS), last);
  const cell = (n) => {
    const high = Math.floor(third / 2 ** 26);
    return Math.floor((high * n + Math.floor(((third - high * 2 ** 26) * n) / 2 ** 26)) / 2 ** 26);
  };
  if (second < inside) return [start + cell(plateau)];
  const other = cell(2 * CELLS + 1 - plateau) - CELLS;
  return [other < start ? other : other + plateau];
}

/** A row in units of `bound`, shortened to 1; one that is not finite becomes 0. */
function scaled(row, bound) {
  const largest = largestOf(row);
  if (!(largest > 0 && largest < Infinity)) return row.map(() => 0);
  const units = row.map((x) => x / largest);
  const size = Math.min(largest / bound, 1 / Math.max(Math.sqrt(dot(units, units)), 1));
  return units.map((x) => x * size);
}

// A joint answer: what it tells of a record, and how much of its squared length each part has.
const PARTS = [["gram", 0.3], ["moment", 0.65], ["square", 0.05]];

/** Numbers of an answer in `d` columns. */
const entries = (kind, d) =>
  ({ gram: (d * (d + 1)) / 2, moment: d, square: 1, joint: (d * (d + 1)) / 2 + d + 1 })[kind];

/** The answer to a question before its channel: no longer than 1, whatever the record is. */
function answer(policy, { kind, clip: edge }, row, reward, scale = 1) {
  if (kind === "joint")
    return PARTS.flatMap(([part, weight]) =>
      answer(policy, { kind: part, clip: edge }, row, reward, Math.sqrt(weight))
    );
  const [low, high] = policy.outcome_range;
  const given = Number.isFinite(reward) ? reward : typeof reward === "boolean" ? +reward : NaN;
  const outcome = clip(given, low, high) / Math.max(Math.abs(low), Math.abs(high));
  const x = row.map((each) => clip(each, -1, 1));
  const residual = clip(outcome, -1, 1) - dot(x, policy.theta);
  if (kind === "square") return [scale * Math.min((residual / edge) * (residual / edge), 1)];
  const z = policy.whitening[0].map((_, j) => dot(x, policy.whitening.map((line) => line[j])));
  const largest = largestOf(z);
  let u = z.map((each) => each / (largest || 1));
  const norm = Math.sqrt(dot(u, u));
  u = u.map((each) => each / (norm || 1));
  const length = norm * largest;
  const ratio = residual / (edge * Math.max(length, 1));
  if (kind === "moment") return u.map((each) => scale * (each * clip(ratio, -1, 1)));
  const weight = Math.min(length, 1) / Math.max(Math.abs(ratio), 1);
  const entry = (i, j) => (scale * (u[i] * (u[j] * weight)) + scale * (u[j] * (u[i] * weight))) / 2;
  return u.flatMap((_, i) =>
    u.slice(i).map((_, k) => (k ? entry(i, i + k) * Math.sqrt(2) : entry(i, i)))
  );
}

/**
 * One private report: integers. Its first word picks the question. No word leaves the device: where
 * reports are shuffled, a question that others could foretell would leave the crowd that answers it.
 */
export function report(policy, row, reward, next) {
  const coin = unit(next());
  let end = 0;
  const place = policy.questions.findIndex(({ fraction }) => coin < (end += fraction));
  const question = policy.questions.at(place); // -1 is the last: fractions add up to nearly 1
  return { question: question.name, values: privatized(policy, question, row, reward, next) };
}

/** Characters of the longest report that a policy can lead to, whatever the record is. */
export function longest({ theta, questions }, tag) {
  return Math.max(...questions.map(({ name, kind }) => {
    const values = new Array(entries(kind, theta.length)).fill(-RESPONSE);
    return JSON.stringify({ id: "0".repeat(32), policy: tag, question: name, values }).length;
  }));
}

export function privatized(policy, question, row, reward, next) {
  let values = answer(policy, question, scaled(row, 1), reward);
  if (!values.every(Number.isFinite)) values = values.map(() => 0);
  const thresholds = policy.channels[question.kind];
  return question.kind === "square"
    ? number(next, values[0], thresholds)
    : ball(next, values, thresholds);
}

// -- deciding --------------------------------------------------------------------------------------

export const best = (values) => values.indexOf(Math.max(...values));

/** Names and rows of what may be chosen: parts of an action times (1, columns of the context). */
export function offered(policy, context, wanted) {
  const { columns, actions } = policy.features;
  if (!columns) {
    if (!Array.isArray(context) || !context.every((row) => row?.length === policy.theta.length))
      throw new TypeError(`expected rows of ${policy.theta.length} features, one for each action`);
    return [context.map((_, i) => i), context.map((row) => scaled([...row].map(Number), policy.norm_bound))];
  }
  const row = [1];
  for (const { name, number, category, other } of columns) {
    const value = context?.[name];
    if (number) {
      const [low, high] = number;
      const x = Math.min(Math.max(Number(value ?? NaN), low), high);
      row.push(Number.isNaN(x) ? 0 : 2 * ((x - low) / (high - low)) - 1); // no number: the middle
    } else {
      const place = category.indexOf(value);
      row.push(...category.map((_, i) => +(i === place)), ...(other ? [+(place < 0)] : []));
    }
  }
  const some = wanted ? wanted.map((name) => actions.find((each) => each.name === name)) : actions;
  if (!some.length || some.includes(undefined)) throw new TypeError("actions: some of the policy's");
  const rows = some.map(({ parts }) => parts.flatMap((part) => row.map((x) => part * x)));
  return [some.map(({ name }) => name), rows.map((each) => scaled(each, policy.norm_bound))];
}

/** The probability of each action under the public policy. */
export function chances({ window, policy, theta, root, draws, exploring }, rows) {
  const law = rows.map(() => (window === 0 ? 1 / rows.length : 0));
  const prefer = (values, weight) => (law[best(values)] += weight);
  const value = (row) => dot(row, theta);
  if (window === 0) return law;
  if (policy === "thompson") {
    for (const draw of draws) prefer(rows.map((row) => dot(row, draw)), 1 / draws.length);
    return law;
  }
  const hope = (row) => {
    const wide = root[0].map((_, j) => dot(row, root.map((line) => line[j])));
    return value(row) + 2.5 * Math.sqrt(dot(wide, wide));
  };
  prefer(rows.map(value), policy === "ucb" ? 1 - exploring : 1);
  if (policy === "ucb") prefer(rows.map(hope), exploring);
  return law;
}

// -- what a device checks before it sees a record ------------------------------------------------

/** P(t >= cap) for one coordinate of a uniform direction: series of positive terms. */
export function fraction(dim, cap) {
  if (dim === 1 || cap === 0) return 0.5;
  const rest = (1 - cap) * (1 + cap);
  let whole = dim % 2 ? 2 : Math.PI; // twice the integral of (1 - t^2)^((dim - 3)/2) from 0 to 1
  for (let m = dim % 2 ? 5 : 4; m <= dim; m += 2) whole *= (m - 3) / (m - 2);
  let term = dim % 2 ? cap : cap * Math.sqrt(rest);
  for (let i = 1; i < dim - 1; i += 2) term *= rest;
  // From 0 to cap, else from cap to 1: the series that converges fast.
  const near = cap * cap * dim < 4 && cap * cap <= 0.5;
  if (!near) term /= dim - 1;
  let sum = 0;
  for (let k = 0; term > sum * 1e-18; k++) {
    if (k === 1e6) return NaN;
    sum += term;
    term *= near ? (cap * cap * (dim + 2 * k)) / (2 * k + 3) : (rest * (dim + 2 * k)) / (dim + 2 * k + 1);
  }
  return near ? 0.5 - sum / whole : sum / whole;
}

const fail = (what) => {
  throw new RangeError(`this device refuses the policy: ${what}`);
};
const within = (x, low, high) => typeof x === "number" && x >= low && x <= high;
const integer = (x, low, high) => Number.isInteger(x) && x >= low && x <= high;
const list = (x, n, test) => Array.isArray(x) && x.length === n && x.every(test);
const bounded = (x) => within(x, -LARGEST, LARGEST);
const size = (x) => within(x, -1e100, 1e100);

function lossOf(kind, dim, c) {
  if (!integer(c?.likely, 1, COINS - 1)) return Infinity;
  const odds = c.likely / (COINS - c.likely);
  if (kind !== "square") {
    if (!within(c.cap, 0, 1 - 1e-9)) return Infinity;
    const q = fraction(entries(kind, dim), c.cap);
    return Math.abs(log(odds * ((1 - q) / q)));
  }
  if (c.likely <= COINS / 2 || !integer(c.mixture, 0, COINS)) return Infinity;
  if (!c.mixture) return log(odds);
  if (!integer(c.plateau, 1, 2 * CELLS) || !integer(c.inside, 1, COINS - 1)) return Infinity;
  const others = 2 * CELLS + 1 - c.plateau;
  const ratio = (a, n, b, m) => log(((a / b) * Math.ceil(COINS / n)) / Math.floor(COINS / m));
  return Math.max(
    log(odds),
    ratio(c.inside, c.plateau, COINS - c.inside, others),
    ratio(COINS - c.inside, others, c.inside, c.plateau)
  );
}

/** log n! */
function logFactorial(n) {
  if (n < 12) {
    let product = 1;
    for (let i = 2; i <= n; i++) product *= i;
    return log(product);
  }
  const square = n * n;
  return (n + 0.5) * log(n) - n + 0.5 * log(2 * Math.PI) + (1 - (1 - 2 / (7 * square)) / (30 * square)) / (12 * n);
}

const chance = (n, k, p) =>
  Math.exp(logFactorial(n) - logFactorial(k) - logFactorial(n - k) + k * log(p) + (n - k) * log(1 - p));

/**
 * The delta at `epsilon` of one report that costs `each` by itself, shuffled among n: as
 * src/discreet/privacy/shuffle.py proves it. What the sums leave out is below 1e-30.
 */
export function shuffledDelta(epsilon, each, n) {
  if (epsilon >= each) return 0;
  const [t, L] = [Math.exp(epsilon), Math.exp(each)];
  const [gain, loss, p] = [L - t, L * t - 1, 2 / (L + 1)];
  const mean = (n - 1) * p;
  const width = 12 * Math.sqrt(mean * (1 - p)) + 144;
  let sum = 0;
  for (let m = Math.max(0, Math.floor(mean - width)) + 1; m <= Math.min(n, mean + width + 1); m++) {
    let k = Math.floor((loss * m) / (gain + loss)) + 1;
    let inner = 0;
    let weight = k > m ? 0 : chance(m, k, 0.5);
    for (; k <= m && weight * gain * m > inner * 1e-17; k++) {
      inner += weight * (gain * k - loss * (m - k));
      weight *= (m - k) / (k + 1);
    }
    sum += (chance(n - 1, m - 1, p) * inner) / m;
  }
  return p * sum;
}

/** The most that a report may cost by itself where it hides in a batch: computed, not believed. */
function hidden({ epsilon, batch }, { epsilon: most, contributions, delta, localEpsilon }) {
  const { size: planned, minimum, honest } = batch;
  if (!delta) fail("its reports need a crowd: state `relay` and `delta`");
  if (contributions !== 1) fail("reports are shuffled: this client sends one, so state contributions 1");
  if (!within(batch.epsilon, 1e-10, most) || !within(batch.delta, 1e-300, delta)) fail("it asks for more epsilon");
  if (!integer(planned, 1, 1e9) || !integer(minimum, 1, planned) || !integer(honest, 1, minimum)) fail("batch");
  if (!within(epsilon, 1e-10, localEpsilon)) fail("its reports cost more by themselves");
  if (!(shuffledDelta(most, epsilon, honest) <= delta * (1 + 1e-6))) fail("its batch is too small to hide in");
  return localEpsilon;
}

/** Refuse a policy that asks for more than `promise`, or holds numbers no server needs. */
export function check(policy, promise) {
  const { epsilon, contributions: k, theta, questions, features, outcome_range: range } = policy;
  const d = theta?.length;
  if (policy.format !== 1) fail("expected format 1; update this client");
  if (!integer(d, 1, 512) || !theta.every(bounded)) fail("theta");
  if (!integer(k, 1, promise.contributions)) fail("it asks for more contributions");
  const most = policy.batch ? hidden(policy, promise) : promise.epsilon;
  if (!within(epsilon, 1e-10, most)) fail("it asks for more epsilon");
  if (epsilon / k > most / promise.contributions) fail("its reports cost more each");
  for (const name of ["whitening", "root"])
    if (!list(policy[name], d, (line) => list(line, d, bounded))) fail(name);
  if (!(largestOf(policy.whitening.flat()) >= 1 / LARGEST)) fail("whitening");
  const draws = policy.draws;
  if (!integer(draws?.length, 1, 4096) || !draws.every((line) => list(line, d, bounded))) fail("draws");
  if (!within(policy.exploring, 0, 0.99) || !integer(policy.window, 0, 2 ** 31)) fail("exploring");
  if (!["thompson", "ucb", "greedy"].includes(policy.policy)) fail("another rule");
  if (!list(range, 2, size) || !(range[0] < range[1])) fail("range");
  if (!within(Math.max(-range[0], range[1]), 1e-100, 1e100)) fail("range");
  if (!within(policy.norm_bound, 1e-100, 1e100)) fail("norm_bound");
  if (!integer(questions?.length, 1, 64)) fail("questions");
  let sum = 0;
  for (const { name, kind, clip: edge, fraction: part } of questions) {
    if (typeof name !== "string" || !entries(kind, 1)) fail("questions");
    if (!within(edge, 1e-6, LARGEST) || !within(part, 0, 1)) fail("questions");
    if (!(lossOf(kind, d, policy.channels?.[kind]) <= epsilon / k)) fail("a channel breaks its promise");
    sum += part;
  }
  if (!(Math.abs(sum - 1) <= 1e-6)) fail("questions");
  if (!features) fail("features");
  const { columns, actions } = features;
  if (!columns) return policy;
  const width = columns.reduce((n, c) => n + (c.category ? c.category.length + !!c.other : 1), 1);
  for (const { number: bounds } of columns)
    if (bounds && !(list(bounds, 2, size) && bounds[0] < bounds[1])) fail("features");
  if (!actions.every(({ parts }) => list(parts, d / width, bounded))) fail("features");
  return policy;
}
