/** What drivers see on their screens, and what drivers and customers are told. */
export interface NotificationService {
  /** Shows the request until it is withdrawn. A second call shows it a second time. */
  showRequest(driverId: string, tripId: string): Promise<void>;
  /** The request is not visible any more, and the driver is told why. Where nothing is visible, he is told all the same. */
  withdrawRequest(driverId: string, tripId: string, why: string): Promise<void>;
  tellCustomer(customerId: string, tripId: string, what: string): Promise<void>;
}

export interface Message {
  readonly to: string;
  readonly tripId: string;
  readonly text: string;
}

/** The screens of this process; each message is handed to `deliver`. */
export class InMemoryNotificationService implements NotificationService {
  private readonly screens = new Map<string, readonly string[]>();

  constructor(private readonly deliver: (message: Message) => void = () => undefined) {}

  async showRequest(driverId: string, tripId: string): Promise<void> {
    this.screens.set(driverId, [...this.visibleTo(driverId), tripId]);
    this.deliver({ to: driverId, tripId, text: 'New trip request' });
  }

  async withdrawRequest(driverId: string, tripId: string, why: string): Promise<void> {
    const left = this.visibleTo(driverId).filter((shown) => shown !== tripId);
    if (left.length === 0) this.screens.delete(driverId);
    else this.screens.set(driverId, left);
    this.deliver({ to: driverId, tripId, text: why });
  }

  async tellCustomer(customerId: string, tripId: string, what: string): Promise<void> {
    this.deliver({ to: customerId, tripId, text: what });
  }

  /** The trips whose requests this driver sees now; one that is shown twice is there twice. */
  visibleTo(driverId: string): readonly string[] {
    return this.screens.get(driverId) ?? [];
  }
}
