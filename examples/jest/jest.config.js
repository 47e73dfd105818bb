module.exports = {
  testEnvironment: 'node',
  // Jest runs tests as CommonJS, and @kubernetes/client-node is an ES module: Babel converts it and what it imports.
  transform: { '\\.js$': ['babel-jest', { plugins: ['@babel/plugin-transform-modules-commonjs'] }] },
  transformIgnorePatterns: ['/node_modules/(?!(@kubernetes/client-node|jose|oauth4webapi|openid-client)/)'],
};
