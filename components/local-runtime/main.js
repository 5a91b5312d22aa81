#!/usr/bin/env node
// Stands in for the container runtime: answers on its socket, and that is all it does.
import { service } from './service.js';

service(() => {});
