// The same for `import`.

import binnacle from './index.js';

export const { ApiServer, Cluster, findProgram } = binnacle;
