/** Counts and durations in the text format of Prometheus. */
export interface Metrics {
  cleanup(source: 'worker' | 'manual', result: 'success' | 'failure'): void;
  provision(result: 'success' | 'error', seconds: number): void;
  request(method: string, route: string, status: number, seconds: number): void;
  /** With what is true now. */
  text(gauges: { readonly [name: string]: number }): string;
}

const prefix = 'containerlease';
/** A route or a status that nobody foresaw must not fill the memory. */
const seriesMax = 1_000;

export function createMetrics(): Metrics {
  const series = new Map<string, Map<string, number>>();

  function add(name: string, labels: { readonly [label: string]: string | number }, n: number): void {
    const text = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    const of = series.get(name) ?? new Map<string, number>();
    const key = `{${text.join(',')}}`;
    if (of.size >= seriesMax && !of.has(key)) return;
    of.set(key, (of.get(key) ?? 0) + n);
    series.set(name, of);
  }
  function took(name: string, labels: { readonly [label: string]: string | number }, seconds: number): void {
    add(`${name}_sum`, labels, seconds);
    add(`${name}_count`, labels, 1);
  }

  return {
    cleanup: (source, result) => add('cleanup_operations_total', { source, result }, 1),
    provision: (result, seconds) => took('provision_duration_seconds', { result }, seconds),
    request(method, route, status, seconds) {
      add('http_requests_total', { method, route, status }, 1);
      took('http_request_duration_seconds', { method, route }, seconds);
    },
    text(gauges) {
      const counted = [...series].flatMap(([name, of]) => [
        ...(name.endsWith('_count') ? [] : [`# TYPE ${prefix}_${name.replace(/_sum$/, '')} ${typeOf(name)}`]),
        ...[...of].map(([labels, value]) => `${prefix}_${name}${labels} ${value}`),
      ]);
      const now = Object.entries(gauges).flatMap(([name, value]) => [
        `# TYPE ${prefix}_${name} gauge`,
        `${prefix}_${name} ${value}`,
      ]);
      return `${[...now, ...counted].join('\n')}\n`;
    },
  };
}

const typeOf = (name: string): string => (name.endsWith('_total') ? 'counter' : 'summary');
