#!/usr/bin/env node
import { parseAmount, sum } from "./sum.js";

console.log(sum(process.argv.slice(2).map(parseAmount)));
