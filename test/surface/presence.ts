// An optional field may be missing on one side and the types still fit. So every field that the surface writes down is
// also looked for by name: in interfaces, in option objects of functions, in what promises and lists hold.
import ts from 'typescript';

/** The name under which the surface keeps its own version of a type that the package gives more of. */
export const promised = (name: string): string => `${name}_promised`;

/** The paths of all fields that `surface` has and `ours` lacks. */
export function missingFields(checker: ts.TypeChecker, surface: ts.SourceFile, ours: ts.Symbol): string[] {
  const seen = new Set<ts.Type>();
  // By symbol: a field that is missing in one type is missing wherever that type is used, and is told once.
  const found = new Map<ts.Symbol, string>();

  function compareSymbols(wanted: ts.Symbol, given: ts.Symbol, path: string): void {
    compareTypes(typeOf(checker, wanted), typeOf(checker, given), path);
  }

  function compareTypes(wanted: ts.Type, given: ts.Type, path: string): void {
    if (seen.has(wanted)) return;
    seen.add(wanted);
    for (const [name, field] of fieldsOf(wanted)) {
      const other = fieldsOf(given).get(name);
      if (other) compareSymbols(field, other, `${path}.${name}`);
      else if (!found.has(field)) found.set(field, `the package lacks ${path}.${name}`);
    }
    pairwise(partsOf(wanted), partsOf(given), path);
    const call = signatureOf(wanted);
    const answer = signatureOf(given);
    if (call && answer) {
      pairwise(
        call.parameters.map((p) => typeOf(checker, p)),
        answer.parameters.map((p) => typeOf(checker, p)),
        `${path}()`,
      );
      compareTypes(call.getReturnType(), answer.getReturnType(), `${path}()`);
    }
  }

  function pairwise(wanted: readonly ts.Type[], given: readonly ts.Type[], path: string): void {
    for (const [index, type] of wanted.entries()) {
      const other = given[index];
      if (other) compareTypes(type, other, path);
    }
  }

  /** Of a union: the fields of all its members. Only what the surface itself declares, never those of `Date` or `Promise`. */
  function fieldsOf(type: ts.Type): Map<string, ts.Symbol> {
    const members = type.isUnion() ? type.types : [type];
    const fields = members
      .filter((member) => member.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))
      .flatMap((member) => member.getProperties());
    return new Map(fields.filter((field) => !isForeign(field) && !isNever(field)).map((field) => [field.name, field]));
  }

  /** A member of a union may name a field only to say that it has none. */
  function isNever(field: ts.Symbol): boolean {
    return (checker.getNonNullableType(typeOf(checker, field)).flags & ts.TypeFlags.Never) !== 0;
  }

  /** What a promise or a list holds. */
  function partsOf(type: ts.Type): readonly ts.Type[] {
    const members = type.isUnion() ? type.types : [type];
    return members.flatMap((member) => (isReference(member) ? checker.getTypeArguments(member) : []));
  }

  function signatureOf(type: ts.Type): ts.Signature | undefined {
    return checker.getNonNullableType(type).getCallSignatures()[0];
  }

  const module = checker.getSymbolAtLocation(surface);
  const exported = new Map(checker.getExportsOfModule(ours).map((symbol) => [symbol.name, symbol]));
  const wanted = module ? checker.getExportsOfModule(module) : [];
  // Types before values, so that a missing field is told under the type that owns it.
  const isValue = (symbol: ts.Symbol): number => (symbol.flags & ts.SymbolFlags.Type ? 0 : 1);
  for (const symbol of [...wanted].sort((a, b) => isValue(a) - isValue(b))) {
    const name = symbol.name.replace(/_promised$/, '');
    const other = exported.get(name);
    // A name that is missing altogether is reported by the compiler.
    if (other) compareSymbols(symbol, other, name);
  }
  return [...found.values()];
}

function typeOf(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Type {
  const real = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  return real.flags & ts.SymbolFlags.Type ? checker.getDeclaredTypeOfSymbol(real) : checker.getTypeOfSymbol(real);
}

function isReference(type: ts.Type): type is ts.TypeReference {
  return (
    (type.flags & ts.TypeFlags.Object) !== 0 && ((type as ts.ObjectType).objectFlags & ts.ObjectFlags.Reference) !== 0
  );
}

function isForeign(symbol: ts.Symbol): boolean {
  const file = symbol.declarations?.[0]?.getSourceFile().fileName ?? '';
  return file.includes('/node_modules/');
}
