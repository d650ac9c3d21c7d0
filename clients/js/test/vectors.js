// Compares what this engine computes with the vectors that Python wrote; runs anywhere.
export function differences({ log, privatized, offered }, vectors) {
  const found = [];
  for (const [x, expected] of vectors.logarithms)
    if (!Object.is(log(x), expected)) found.push(`log(${x})`);
  vectors.reports.forEach((each, number) => {
    const policy = vectors.policies[each.policy];
    const question = policy.questions[each.question];
    let at = 0;
    const next = () => each.words[at++];
    // As Device.decide does: rows are brought to the bound first.
    const row = offered(policy, [each.row])[1][0];
    const values = privatized(policy, question, row, each.reward, next);
    if (JSON.stringify(values) !== JSON.stringify(each.values)) found.push(`report ${number}`);
    if (at !== each.words.length) found.push(`words of report ${number}`);
  });
  const { features, contexts, rows } = vectors.rows;
  contexts.forEach((context, number) => {
    const policy = { features, norm_bound: 1, theta: rows[0][0] };
    const made = offered(policy, context)[1];
    if (JSON.stringify(made) !== JSON.stringify(rows[number])) found.push(`rows ${number}`);
  });
  return found;
}
