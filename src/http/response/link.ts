/** The Link header of the next page: the same request with these parameters changed. */
export const nextLink = (target: string, parameters: Record<string, string | number>): { link: string } => {
  const url = new URL(target, "http://localhost");
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, String(value));
  return { link: `<${url.pathname}${url.search}>; rel="next"` };
};
