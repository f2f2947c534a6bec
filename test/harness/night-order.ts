import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The crash sweep goes first: it takes an hour beside whatever else runs, and would take it alone at the end. */
export class NightOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isFirst = ({ moduleId }: TestSpecification) => relative(this.ctx.config.root, moduleId) === sweep;
    return [...sorted.filter(isFirst), ...sorted.filter((file) => !isFirst(file))];
  }
}

const sweep = "test/crash/whole/whole.test.ts";
